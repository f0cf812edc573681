"""MUC, B³, CEAFφ4 and their mean F1, as the reference scorer of CoNLL-2012 defines them.

    score(count(gold_of_one, predicted_of_one) + count(gold_of_other, predicted_of_other)).mean_f1

Every measure is a recall and a precision, each a quotient of two sums; over documents, numerators
and denominators are summed before they are divided. A quotient without a denominator is 0. All
four measures follow from how many mentions each true and each predicted cluster share:

- MUC counts links: a cluster of n mentions needs n - 1, and keeps one less per piece it is in.
  Singletons have none.
- B³ asks of each mention how much of its cluster it is together with.
- CEAFφ4 pairs clusters one to one, for the greatest sum of 2 |shared| / (|true| + |predicted|).
- mentions: how many are found at all.

A mention given in several clusters belongs to the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Mention: TypeAlias = tuple[int, int]
Clusters: TypeAlias = Iterable[Iterable[Mention]]
Numbers: TypeAlias = NDArray[np.float64]

MEASURES = ("muc", "b_cubed", "ceaf", "mentions")


@dataclass(frozen=True, slots=True)
class Quality:
    """One measure, in percent."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True)
class CorefScore:
    """All measures of some documents."""

    muc: Quality
    b_cubed: Quality
    ceaf: Quality
    mentions: Quality
    mean_f1: float
    """Of the first three."""


def evaluate(gold: Sequence[Clusters], predicted: Sequence[Clusters]) -> CorefScore:
    """Score the predicted clusters of documents against the true ones, in the same order."""
    pairs = zip(gold, predicted, strict=True)
    return score(sum((count(*pair) for pair in pairs), start=np.zeros((len(MEASURES), 4))))


def count(gold: Clusters, predicted: Clusters) -> Numbers:
    """(4, 4) sums of one document; those of several add up.

    A row per measure; in it the numerator and denominator of recall, then of precision.
    """
    ours, theirs = partition(predicted), partition(gold)
    shared = _shared(theirs, ours)  # (G, P)
    sizes = np.array([len(cluster) for cluster in theirs], dtype=float)  # (G,)
    our_sizes = np.array([len(cluster) for cluster in ours], dtype=float)  # (P,)
    found = shared.sum()
    links = (shared - 1).clip(0).sum()
    phi = 2 * shared / (sizes[:, None] + our_sizes)  # (G, P)
    paired = phi[best_pairs(phi)].sum()
    together = shared**2
    return np.array([
        [links, (sizes - 1).sum(), links, (our_sizes - 1).sum()],
        [(together.T / sizes).sum(), sizes.sum(), (together / our_sizes).sum(), our_sizes.sum()],
        [paired, len(theirs), paired, len(ours)],
        [found, sizes.sum(), found, our_sizes.sum()],
    ])  # fmt: skip


def score(counts: Numbers) -> CorefScore:
    """The measures of summed counts, (4, 4)."""
    recall, precision = _quotients(counts)
    columns = (precision.tolist(), recall.tolist(), f1(counts).tolist())
    muc, b_cubed, ceaf, mentions = (Quality(*row) for row in zip(*columns, strict=True))
    return CorefScore(muc, b_cubed, ceaf, mentions, float(mean_f1(counts)))


def mean_f1(counts: Numbers) -> Numbers:
    """Mean F1 of MUC, B³ and CEAFφ4 in percent: (..., 4, 4) -> (...)."""
    return np.asarray(f1(counts)[..., :3].mean(-1))


def f1(counts: Numbers) -> Numbers:
    """F1 of each measure in percent: (..., 4, 4) -> (..., 4)."""
    recall, precision = _quotients(counts)
    return _divide(2 * recall * precision, recall + precision)


def partition(clusters: Clusters) -> list[list[Mention]]:
    """Clusters that share no mention: each stays in the first that holds it; none is empty."""
    seen: set[Mention] = set()
    found: list[list[Mention]] = []
    for cluster in clusters:
        fresh = [mention for mention in dict.fromkeys(cluster) if mention not in seen]
        seen.update(fresh)
        found += [fresh] if fresh else []
    return found


def best_pairs(values: Numbers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of the pairs, one to one, whose values (R, C) have the greatest sum.

    Rows are taken in one by one, each by the cheapest chain of changes to the pairs before it
    (the Hungarian algorithm with shortest paths, R² C steps at most).
    """
    if values.shape[0] > values.shape[1]:
        columns, rows = best_pairs(values.T)
        return rows, columns
    R, C = values.shape
    prices = np.zeros(C)
    row_of = np.full(C, -1)
    for row in range(R):
        _take_in(row, -values, prices, row_of)
    columns = np.flatnonzero(row_of >= 0)
    return row_of[columns], columns


def _take_in(row: int, costs: Numbers, prices: Numbers, row_of: NDArray[np.int64]) -> None:
    """Give the row a column, moving other rows where that is cheaper; changes prices and row_of."""
    C = len(prices)
    lengths, came_from = np.full(C, np.inf), np.full(C, -1)  # of the shortest path to each column
    is_done = np.zeros(C, dtype=bool)
    column, length, here = -1, 0.0, row
    while True:
        # What a column costs the row here, beyond what the row pays for the one it has.
        base = 0.0 if column < 0 else costs[here, column] - prices[column]
        steps = length + costs[here] - prices - base
        is_better = ~is_done & (steps < lengths)
        lengths[is_better], came_from[is_better] = steps[is_better], column
        column = int(np.where(is_done, np.inf, lengths).argmin())
        length, is_done[column] = float(lengths[column]), True
        if row_of[column] < 0:
            break
        here = int(row_of[column])
    prices[is_done] += lengths[is_done] - length
    while column >= 0:
        before = int(came_from[column])
        row_of[column] = row if before < 0 else row_of[before]
        column = before


def _shared(gold: list[list[Mention]], predicted: list[list[Mention]]) -> Numbers:
    """(G, P) mentions that each true and each predicted cluster have in common."""
    cluster_of = {mention: j for j, cluster in enumerate(predicted) for mention in cluster}
    shared = np.zeros((len(gold), len(predicted)))
    for i, cluster in enumerate(gold):
        for mention in cluster:
            if mention in cluster_of:
                shared[i, cluster_of[mention]] += 1
    return shared


def _quotients(counts: Numbers) -> tuple[Numbers, Numbers]:
    """Recall and precision in percent: (..., 4, 4) -> (..., 4) each."""
    numerators, denominators = 100 * counts[..., 0::2], counts[..., 1::2]
    both = _divide(numerators, denominators)  # (..., 4, 2)
    return both[..., 0], both[..., 1]


def _divide(above: Numbers, below: Numbers) -> Numbers:
    """The quotient, 0 where nothing stands below."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
