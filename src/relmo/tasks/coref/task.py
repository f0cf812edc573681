"""Coreference resolution as a task: the clusters of mentions in a document.

A folder holds one corpus; corpora are trained separately, as they treat singletons, mentions alone
in their cluster, differently. LitBank annotates them: its models predict them, and they count in
the score. OntoNotes and OntoGUM do not: the few that occur are errors and are left out. The
training data decide between the two, unless the setting `singletons` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.kernels.device import to_device
from relmo.tasks.chunk_tags import bracket
from relmo.tasks.coref.data import Cluster, CorefDocument, read_documents, without_singletons
from relmo.tasks.coref.metrics import count, evaluate
from relmo.tasks.coref.model import CorefModel, CorefSettings
from relmo.tasks.data_files import Part
from relmo.tasks.inputs import TokenInput, Words
from relmo.tasks.labelled import LabelledTask
from relmo.tasks.plain_text import describe_span, documents_of_lines

Clusters = tuple[Cluster, ...]
MANY_SINGLETONS = 0.1
"""Share of clusters with one mention above which singletons are taken for annotated."""


class CorefTask(LabelledTask[CorefDocument, Clusters, CorefSettings]):
    """Finds clusters of mentions; scored by the mean F1 of MUC, B³ and CEAFφ4."""

    score = "dev_f1"
    noun = "documents"
    settings_type = CorefSettings
    net: CorefModel

    def set_up(self, facts: dict[str, Any], tokens: TokenInput) -> None:
        """Take over genres and the treatment of singletons, and build the model."""
        by_setting = {"auto": facts["has_singletons"], "keep": True, "drop": False}
        self.keeps_singletons: bool = by_setting[self.settings.singletons]
        self._genre_of = {genre: i for i, genre in enumerate(facts["genres"], 1)}
        num_genres = len(facts["genres"])
        self.net = CorefModel(self.settings, tokens, num_genres, self.keeps_singletons)

    def prepare(self, train: Sequence[CorefDocument]) -> list[CorefDocument]:
        """The documents that have words, with the singletons that count."""
        return [self._counted(document) for document in train if document.words]

    @classmethod
    def read(cls, path: Path, part: Part) -> list[CorefDocument]:
        """The documents of a file of columns."""
        return list(read_documents(path))

    @classmethod
    def facts_of(cls, train: Sequence[CorefDocument]) -> dict[str, Any]:
        """The genres, and whether singletons are annotated."""
        sizes = [len(cluster) for document in train for cluster in document.clusters]
        return {
            "genres": sorted({document.genre for document in train if document.genre}),
            "has_singletons": sizes.count(1) > MANY_SINGLETONS * len(sizes),
        }

    @classmethod
    def sentences(cls, example: CorefDocument) -> list[Words]:
        """The sentences of the document."""
        return list(example.sentences)

    def read_text(self, lines: Iterable[str]) -> Iterator[CorefDocument]:
        """Documents of plain text; a blank line ends one."""
        for number, document in enumerate(documents_of_lines(lines)):
            sentences = tuple(words for words, _ in document)
            places = tuple(place for _, sentence in document for place in sentence)
            yield CorefDocument(str(number), 0, sentences, places=places)

    def describe(self, example: CorefDocument, prediction: Clusters) -> dict[str, Any]:
        """Sentences, and clusters of mentions with their words and offsets."""
        words, places = example.words, example.places
        clusters = [[describe_span(words, places, *each) for each in c] for c in prediction]
        return {"sentences": example.sentences, "clusters": clusters}

    def render(self, example: CorefDocument, prediction: Clusters) -> str:
        """The text with `[1 …]` around each mention of the first cluster, and so on."""
        spans = [(n, *mention) for n, cluster in enumerate(prediction, 1) for mention in cluster]
        return bracket(example.words, sorted(spans, key=lambda span: span[2] - span[1]))

    def length(self, example: CorefDocument) -> int:
        """Words of the document."""
        return len(example.words)

    def model_inputs(self, examples: Sequence[CorefDocument]) -> tuple[Any, ...]:
        """The sentences of one document, and the number of its genre, ()."""
        (document,) = examples
        number = self._genre_of.get(document.genre or "", 0)  # 0 is a genre not seen in training
        return self.inputs(document.sentences), torch.tensor(number, device=self.device)

    def targets(self, examples: Sequence[CorefDocument]) -> tuple[Tensor, ...]:
        """(N, W) the cluster of each span of one document."""
        (document,) = examples
        return (to_device(group_grid(document, self.settings.max_width), self.device),)

    def batch_loss(self, examples: Sequence[CorefDocument]) -> Tensor:
        """The mean loss of a batch; each document runs through the model on its own."""
        losses = [super(CorefTask, self).batch_loss([document]) for document in examples]
        return torch.stack(losses).mean()

    def predict_batch(self, examples: Sequence[CorefDocument]) -> list[Clusters]:
        """The clusters of each document; a document without words has none."""
        return [self.net.decode(*self.model_inputs([e])) if e.words else () for e in examples]

    def scores(
        self, examples: Sequence[CorefDocument], predictions: Sequence[Clusters]
    ) -> dict[str, float]:
        """F1 of each measure and of mentions, their mean, and the share of unreachable mentions."""
        gold = [self._counted(document) for document in examples]
        found = evaluate([document.clusters for document in gold], predictions)
        num_mentions = sum(len(cluster) for d in gold for cluster in d.clusters)
        num_missed = sum(out_of_reach(d, self.settings.max_width) for d in gold)
        return {
            "f1": found.mean_f1,
            "muc_f1": found.muc.f1,
            "b_cubed_f1": found.b_cubed.f1,
            "ceaf_f1": found.ceaf.f1,
            "mention_f1": found.mentions.f1,
            "mention_recall": found.mentions.recall,
            "out_of_reach": 100 * num_missed / max(num_mentions, 1),
        }

    def counts(
        self, examples: Sequence[CorefDocument], predictions: Sequence[Clusters]
    ) -> list[list[list[float]]]:
        """Numerators and denominators of each measure, (4, 4) for each document."""
        pairs = zip(examples, predictions, strict=True)
        return [count(self._counted(e).clusters, p).round(6).tolist() for e, p in pairs]

    def _counted(self, document: CorefDocument) -> CorefDocument:
        """The document, without singletons if they do not count."""
        return document if self.keeps_singletons else without_singletons(document)


def group_grid(document: CorefDocument, max_width: int) -> NDArray[np.int64]:
    """The number from 1 of the cluster that each span is a mention of, else 0: (N, W).

    Unreachable mentions are left out; a mention in several clusters belongs to the first.
    """
    grid = np.zeros((len(document.words), max_width), np.int64)  # (N, W)
    is_near = _reachable(document, max_width)
    for number, cluster in enumerate(document.clusters, 1):
        for first, last in cluster:
            if is_near(first, last) and not grid[first, last - first]:
                grid[first, last - first] = number
    return grid


def out_of_reach(document: CorefDocument, max_width: int) -> int:
    """Number of mentions that are too wide or cross a sentence boundary: none is ever found."""
    is_near = _reachable(document, max_width)
    return sum(not is_near(*mention) for cluster in document.clusters for mention in cluster)


def _reachable(document: CorefDocument, max_width: int) -> Callable[[int, int], bool]:
    """Whether a mention (first, last) is a span that the model considers."""
    lengths = [len(sentence) for sentence in document.sentences]
    sentence_of = np.repeat(np.arange(len(lengths)), lengths)  # (N,)
    return lambda first, last: bool(
        last - first < max_width and sentence_of[first] == sentence_of[last]
    )
