"""Which sense does a word have here? Asked of the examples of each sense that training shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from relmo.lab.probes.wsd_data import Entry, Instance
from relmo.types import Vectors

Kind = Literal["centroid", "neighbours"]
Centre = Literal["none", "all", "entry"]
WordNet = Mapping[Entry, Sequence[str]]
Answer = str | None
"""A sense key, or nothing where neither training nor WordNet knows the word."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How a sense is chosen from cosines; of equals the more frequent sense is taken."""

    kind: Kind = "centroid"
    """The highest of cosine to the sense's mean vector + prior * log(1 + its examples); or most of
    the nearest examples, the senses' votes counted."""
    centre: Centre = "none"
    """What is taken off all vectors first: nothing, the mean of all, the mean of the entry's."""
    prior: float = 0.0
    """Of centroids: what an e-fold number of examples is worth beside the cosine."""
    votes: int = 0
    """Of neighbours: how many vote."""


PLAIN = Rule()
"""The paper's: the nearest centroid."""


class Senses:
    """What training shows: the senses of each entry, the most frequent first, and their rows.

    Args:
        instances: row of its vector, instance.
        wordnet: of equally frequent senses its first comes first; for an entry that training does
            not show, its first sense is the answer.
    """

    def __init__(self, instances: Iterable[tuple[int, Instance]], wordnet: WordNet) -> None:
        self.wordnet = wordnet
        found: dict[Entry, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for row, instance in instances:
            for key in instance.keys:
                found[instance.entry][key].append(row)
        self.rows: dict[Entry, dict[str, list[int]]] = {
            entry: dict(sorted(senses.items(), key=lambda item: self._rank(entry, *item)))
            for entry, senses in found.items()
        }

    def first(self, entry: Entry) -> Answer:
        """WordNet's first sense."""
        return next(iter(self.wordnet.get(entry, ())), None)

    def most_frequent(self, entry: Entry) -> Answer:
        """The sense that training shows most often, else WordNet's first."""
        return next(iter(self.rows.get(entry, ())), self.first(entry))

    def _rank(self, entry: Entry, key: str, rows: list[int]) -> tuple[int, int, str]:
        known = list(self.wordnet.get(entry, ()))
        return -len(rows), known.index(key) if key in known else len(known), key


def disambiguate(
    senses: Senses,
    taught: Vectors,
    instances: Sequence[Instance],
    vectors: Vectors,
    rules: Sequence[Rule],
) -> list[list[Answer]]:
    """By each rule the sense of each instance; WordNet's first where training shows none.

    Args:
        senses: of the training part.
        taught: (N, D) the training part's vectors, by the rows that `senses` names.
        instances: whose senses are asked for.
        vectors: (M, D) of theirs.
        rules: all that are wanted: they share the work.
    """
    answers: list[list[Answer]] = [[senses.first(i.entry) for i in instances] for _ in rules]
    rows_of: dict[Entry, list[int]] = defaultdict(list)
    for row, instance in enumerate(instances):
        rows_of[instance.entry].append(row)
    mean = taught.mean(0)
    for entry, rows in rows_of.items():
        if entry not in senses.rows:
            continue
        keys = list(senses.rows[entry])
        examples = _Examples(list(senses.rows[entry].values()), taught, mean)
        for rule, found in zip(rules, answers, strict=True):
            for row, sense in zip(rows, examples.choose(vectors[rows], rule), strict=True):
                found[row] = keys[sense]
    return answers


def f1(instances: Sequence[Instance], answers: Sequence[Answer]) -> float:
    """In percent; an answer is right if it is any of the keys, and None is no answer."""
    answered = sum(answer is not None for answer in answers)
    right = sum(a in i.keys for i, a in zip(instances, answers, strict=True))
    return 200 * right / (answered + len(instances)) if instances else 0.0


def cosines_of(vectors: Vectors, others: Vectors) -> Vectors:
    """Cosine of each row with each of the others, (N, M); 0 where a vector is zero."""
    lengths = np.linalg.norm(vectors, axis=-1)[:, None] * np.linalg.norm(others, axis=-1)
    found: Vectors = vectors @ others.T / np.maximum(lengths, 1e-12)
    return found.round(5)  # nearer than that is noise: the more frequent sense goes first then


class _Examples:
    """The examples of one entry, sense by sense; cosines are computed once for all rules.

    N asked for, S senses, E examples (one of several senses counts in each), D width.
    """

    def __init__(self, rows: list[list[int]], taught: Vectors, mean: Vectors) -> None:
        self.sense_of = np.repeat(np.arange(len(rows)), [len(found) for found in rows])  # (E,)
        self.examples = taught[[row for found in rows for row in found]]  # (E, D)
        self.counts = np.bincount(self.sense_of)  # (S,)
        self.centroids = np.stack([taught[found].mean(0) for found in rows])  # (S, D)
        own = taught[sorted({row for found in rows for row in found})].mean(0)
        self.centres = {"none": np.zeros_like(mean), "all": mean, "entry": own}
        self.cosines: dict[Centre, Vectors] = {}
        self.nearest: dict[Centre, NDArray[np.int64]] = {}

    def choose(self, vectors: Vectors, rule: Rule) -> NDArray[np.int64]:
        """The number of each vector's sense, (N,); the vectors are the same at every call."""
        if len(self.counts) == 1:
            return np.zeros(len(vectors), np.int64)
        centre = self.centres[rule.centre]
        if rule.kind == "centroid":
            if rule.centre not in self.cosines:
                self.cosines[rule.centre] = cosines_of(vectors - centre, self.centroids - centre)
            scores = self.cosines[rule.centre] + rule.prior * np.log1p(self.counts)  # (N, S)
            return np.asarray(scores.argmax(-1), np.int64)
        if rule.centre not in self.nearest:
            cosines = cosines_of(vectors - centre, self.examples - centre)
            order = np.argsort(-cosines, axis=-1, kind="stable")  # (N, E), the nearest first
            self.nearest[rule.centre] = self.sense_of[order]
        votes = self.nearest[rule.centre][:, : rule.votes]
        return np.array([np.bincount(each).argmax() for each in votes], np.int64)
