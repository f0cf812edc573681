"""Coreference as a task: the groups of mentions of a document that mean the same.

A folder holds one corpus; corpora are trained apart, for each has a rule of its own for mentions
that are alone in their group. LitBank marks them: its models find them, and they count in the
score. OntoNotes and OntoGUM do not: the few that stand there are slips and are left out. Which rule
holds is seen from the training data, or said by the setting `singletons`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.kernels.device import to_device
from relmo.tasks.coref.data import Cluster, Document, read_documents, without_singletons
from relmo.tasks.coref.metrics import count, evaluate
from relmo.tasks.coref.model import CorefModel, CorefSettings
from relmo.tasks.data_files import Part
from relmo.tasks.inputs import Inputs, TokenInput, Words
from relmo.tasks.labelled import BatchSettings, LabelledTask
from relmo.tasks.plain_text import describe_span, documents_of_lines

Clusters = tuple[Cluster, ...]
MANY_SINGLETONS = 0.1
"""Share of clusters with one mention from which on they are there on purpose."""


class CorefTask(LabelledTask[Document, Clusters, CorefSettings]):
    """Finds clusters of mentions; scored by the mean F1 of MUC, B³ and CEAFφ4."""

    score = "dev_f1"
    settings_type = CorefSettings

    def __init__(
        self,
        settings: CorefSettings,
        facts: dict[str, Any],
        inputs: Inputs,
        tokens: TokenInput,
        train: Sequence[Document] = (),
        dev: Sequence[Document] = (),
        batches: BatchSettings | None = None,
        seed: int = 0,
    ) -> None:
        self.settings, self.inputs = settings, inputs
        by_setting = {"auto": facts["has_singletons"], "keep": True, "drop": False}
        self.keeps_singletons: bool = by_setting[settings.singletons]
        self._genre_of = {genre: i for i, genre in enumerate(facts["genres"], 1)}
        self.net = CorefModel(settings, tokens, len(facts["genres"]), self.keeps_singletons)
        train = [self._ruled(document) for document in train if document.words]
        super().__init__(self.net, train, dev, batches or BatchSettings(), seed, inputs.device)

    @classmethod
    def read(cls, path: Path, part: Part) -> list[Document]:
        """The documents of a file of columns."""
        return list(read_documents(path))

    @classmethod
    def facts_of(cls, train: Sequence[Document]) -> dict[str, Any]:
        """Genres, and whether mentions alone in their clusters are marked."""
        sizes = [len(cluster) for document in train for cluster in document.clusters]
        return {
            "genres": sorted({document.genre for document in train if document.genre}),
            "has_singletons": sizes.count(1) > MANY_SINGLETONS * len(sizes),
        }

    @classmethod
    def sentences(cls, example: Document) -> list[Words]:
        """What of an example is read as a sentence."""
        return list(example.sentences)

    def read_text(self, lines: Iterable[str]) -> Iterator[Document]:
        """Documents of plain text: a blank line ends one."""
        for number, document in enumerate(documents_of_lines(lines)):
            sentences = tuple(words for words, _ in document)
            places = tuple(place for _, sentence in document for place in sentence)
            yield Document(str(number), 0, sentences, None, (), None, places)

    def describe(self, example: Document, prediction: Clusters) -> dict[str, Any]:
        """Sentences, and clusters of mentions by their first and last word and their text."""
        words = example.words
        clusters = [
            [describe_span(words, example.places, a, z) for a, z in cluster]
            for cluster in prediction
        ]
        return {"sentences": example.sentences, "clusters": clusters}

    def render(self, example: Document, prediction: Clusters) -> str:
        """The text with `[1 …]` around each mention of the first cluster, and so on."""
        words = list(example.words)
        mentions = [(m, number) for number, cluster in enumerate(prediction, 1) for m in cluster]
        for (first, last), number in sorted(mentions, key=lambda found: found[0][1] - found[0][0]):
            words[first] = f"[{number} {words[first]}"  # a longer one opens before it
            words[last] += "]"
        return " ".join(words)

    def length(self, example: Document) -> int:
        """Words."""
        return len(example.words)

    def batch_loss(self, examples: Sequence[Document]) -> Tensor:
        """The mean loss of a batch."""
        return torch.stack([self._document_loss(document) for document in examples]).mean()

    def predict_batch(self, examples: Sequence[Document]) -> list[Clusters]:
        """The clusters of each document; those it has are not looked at."""
        return [
            self.net.decode(self.inputs(e.sentences), self._genre(e)) if e.words else ()
            for e in examples
        ]

    def scores(
        self, examples: Sequence[Document], predictions: Sequence[Clusters]
    ) -> dict[str, float]:
        """F1 of each measure and of mentions, their mean, and mentions that could not be found."""
        gold = [self._ruled(document) for document in examples]
        found = evaluate([document.clusters for document in gold], predictions)
        num_mentions = sum(len(cluster) for document in gold for cluster in document.clusters)
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
        self, examples: Sequence[Document], predictions: Sequence[Clusters]
    ) -> list[list[list[float]]]:
        """Numerators and denominators of each measure, (4, 4) of each document."""
        pairs = zip(examples, predictions, strict=True)
        return [count(self._ruled(e).clusters, p).round(6).tolist() for e, p in pairs]

    def _document_loss(self, document: Document) -> Tensor:
        groups = to_device(group_grid(document, self.settings.max_width), self.device)
        return self.net.loss(self.inputs(document.sentences), self._genre(document), groups)

    def _ruled(self, document: Document) -> Document:
        """The document with or without singletons, as the rule is."""
        return document if self.keeps_singletons else without_singletons(document)

    def _genre(self, document: Document) -> Tensor:
        """Number of the genre, 0 for one that training did not have: ()."""
        number = self._genre_of.get(document.genre or "", 0)
        return torch.tensor(number, device=self.device)


def group_grid(document: Document, max_width: int) -> NDArray[np.int64]:
    """Number of the cluster from 1 on that a span is a mention of, else 0: (N, W).

    Mentions out of reach are left out; one in several clusters belongs to the first.
    """
    N = len(document.words)
    grid = np.zeros((N, max_width), np.int64)
    sentence_of = _sentence_of(document)
    for number, cluster in enumerate(document.clusters, 1):
        for first, last in cluster:
            is_near = last - first < max_width and sentence_of[first] == sentence_of[last]
            if is_near and not grid[first, last - first]:
                grid[first, last - first] = number
    return grid


def out_of_reach(document: Document, max_width: int) -> int:
    """Mentions that are too wide or run over the end of their sentence: none is ever found."""
    sentence_of = _sentence_of(document)
    is_out = [
        last - first >= max_width or sentence_of[first] != sentence_of[last]
        for cluster in document.clusters
        for first, last in cluster
    ]
    return int(sum(is_out))


def _sentence_of(document: Document) -> NDArray[np.int64]:
    """Number of each word's sentence, (N,)."""
    lengths = [len(sentence) for sentence in document.sentences]
    return np.repeat(np.arange(len(lengths)), lengths)
