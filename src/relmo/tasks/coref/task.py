"""Coreference resolution as a task: the clusters of mentions in a document.

A folder holds one corpus; corpora are trained separately, as they treat singletons, mentions alone
in their cluster, differently. LitBank annotates them: its models predict them, and they count in
the score. OntoNotes and OntoGUM do not: the few that occur are errors and are left out. The
training data decide between the two, unless the setting `singletons` does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.errors import TextWarning
from relmo.kernels.device import to_device
from relmo.tasks import results
from relmo.tasks.calibration import Judged
from relmo.tasks.coref.data import Cluster, CorefDocument, read_documents, without_singletons
from relmo.tasks.coref.metrics import count, evaluate
from relmo.tasks.coref.model import CorefModel, CorefSettings, Ranking
from relmo.tasks.data_files import Part
from relmo.tasks.inputs import TokenInput, Words
from relmo.tasks.labelled import LabelledTask
from relmo.tasks.mistakes import CONTEXT, MISSED, SPURIOUS, TaskError
from relmo.tasks.plain_text import Places, Sentence, places_in, sentences_of

Clusters = tuple[Cluster, ...]
FoundCluster = results.Cluster
MAX_WORDS = 5000
"""Words of a text that are read as one document: memory grows with the square of their number."""
MANY_SINGLETONS = 0.1
"""Share of clusters with one mention above which singletons are taken for annotated."""


class CorefTask(LabelledTask[CorefDocument, Clusters, CorefSettings]):
    """Finds clusters of mentions; scored by the mean F1 of MUC, B³ and CEAFφ4."""

    score = "dev_f1"
    result_name = "clusters"
    has_one_result = False
    has_scores = True
    reads_documents = True
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

    def read_input(self, *texts: str) -> list[CorefDocument]:
        """The text as one document, or several parts of a long one, which is told."""
        (text,) = texts
        parts: list[list[Sentence]] = []
        size = MAX_WORDS
        for sentence in sentences_of(text):
            size += len(sentence[0])
            if size > MAX_WORDS:
                parts.append([])
                size = len(sentence[0])
            parts[-1].append(sentence)
        if len(parts) > 1:
            what = f"a text of more than {MAX_WORDS:,} words is read in {len(parts)} parts"
            warnings.warn(f"{what}; no cluster goes beyond its part", TextWarning, stacklevel=2)
        return [_document(text, part) for part in parts]

    def outputs(self, examples: Sequence[CorefDocument]) -> list[Ranking | None]:
        """The ranking of each document that has words."""
        return [self.net(*self.model_inputs([e])) if e.words else None for e in examples]

    def results(
        self,
        examples: Sequence[CorefDocument],
        outputs: Sequence[Ranking | None],
        temperature: float,
    ) -> list[list[results.Cluster]]:
        """Clusters of mentions; a mention's score is the probability that it is one."""
        found: list[list[results.Cluster]] = []
        for example, ranking in zip(examples, outputs, strict=True):
            found.append([])
            if ranking is None:
                continue
            places = places_in(example)
            shares = torch.sigmoid(ranking.mentions / temperature)  # (N, W)
            for cluster in self.net.clusters(ranking):
                mentions = (
                    results.Mention(*places.span(first, last), shares[first, last - first].item())
                    for first, last in cluster
                )
                found[-1].append(results.Cluster(tuple(mentions)))
        return found

    def judged(
        self,
        examples: Sequence[CorefDocument],
        outputs: Sequence[Ranking | None],
        temperature: float,
    ) -> Judged:
        """Scores of mentions, and which of them are mentions."""
        found: list[tuple[float, bool]] = []
        answers = self.results(examples, outputs, temperature)
        for example, clusters in zip(examples, answers, strict=True):
            places = places_in(example)
            gold = {places.span(*m)[1:] for c in self._counted(example).clusters for m in c}
            mentions = (mention for cluster in clusters for mention in cluster.mentions)
            found += [(m.score, (m.start, m.end) in gold) for m in mentions]
        return found

    def errors_of(
        self, example: CorefDocument, found: Sequence[FoundCluster]
    ) -> Iterator[TaskError]:
        """Mentions that are missed or spurious, and those with a wrong link or without theirs.

        A mention is linked to the one before it in its cluster: `[she] = Ada`.
        """
        places = places_in(example)
        gold = _by_mention(
            [places.span(*mention)[1:] for mention in cluster]
            for cluster in self._counted(example).clusters
        )
        said = _by_mention([(m.start, m.end) for m in cluster.mentions] for cluster in found)
        scores = {(m.start, m.end): m.score for cluster in found for m in cluster.mentions}
        for mention in sorted({*gold, *said}):
            kind = _kind_of_error(mention, gold, said)
            if kind is not None:
                first, past = max(0, mention[0] - CONTEXT), mention[1] + CONTEXT
                yield TaskError(
                    kind=kind,
                    gold=_link(mention, gold, places.text),
                    predicted=_link(mention, said, places.text),
                    score=scores.get(mention),
                    text=places.text[first:past],
                    start=mention[0] - first,
                    end=mention[1] - first,
                )

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


def _document(text: str, sentences: Sequence[Sentence]) -> CorefDocument:
    starts = tuple(start for _, places in sentences for start in places.starts)
    ends = tuple(end for _, places in sentences for end in places.ends)
    words = tuple(words for words, _ in sentences)
    return CorefDocument("", 0, words, places=Places(text, starts, ends))


Place = tuple[int, int]
"""Start and end of a mention in the text."""
Clustered = dict[Place, list[Place]]
"""Mention -> its cluster."""


def _by_mention(clusters: Iterable[list[Place]]) -> Clustered:
    return {mention: cluster for cluster in map(sorted, clusters) for mention in cluster}


def _before(mention: Place, clusters: Clustered) -> list[Place]:
    """The mentions before this one in its cluster."""
    cluster = clusters.get(mention, [mention])
    return cluster[: cluster.index(mention)]


def _kind_of_error(mention: Place, gold: Clustered, said: Clustered) -> str | None:
    """What is wrong with a mention; None if nothing is."""
    if mention not in said:
        return MISSED
    if mention not in gold:
        return SPURIOUS
    wanted, linked = _before(mention, gold), _before(mention, said)
    if linked:
        return None if linked[-1] in wanted else "wrong link"
    return "missed link" if any(each in said for each in wanted) else None


def _link(mention: Place, clusters: Clustered, text: str) -> str:
    """`[she] = Ada`, or `[Ada]` for a first mention; "" if it is none."""
    before = [text[start:end] for start, end in _before(mention, clusters)[-1:]]
    shown = " = ".join([f"[{text[slice(*mention)]}]", *before])
    return shown if mention in clusters else ""


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
