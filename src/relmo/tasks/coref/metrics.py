"""MUC, B³, CEAFφ4 and their mean F1, as the reference scorer of CoNLL-2012 defines them.

    score(count(gold_of_one, predicted_of_one) + count(gold_of_other, predicted_of_other)).mean_f1

Every measure has a recall and a precision, each a quotient of two sums; over documents, numerators
and denominators are summed before the division. A quotient with denominator 0 is 0. All four
measures follow from how many mentions each gold and each predicted cluster share:

- MUC counts links: a cluster of n mentions has n - 1, and loses one per additional piece it is
  split into. Singletons have none.
- B³ measures for each mention the share of its cluster that it is together with.
- CEAFφ4 pairs clusters one to one, with the maximum sum of 2 |shared| / (|gold| + |predicted|).
- mentions: how many are found at all.

A mention in several clusters belongs to the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from relmo.tasks.coref.data import Mention

Clusters = Iterable[Iterable[Mention]]
Numbers = NDArray[np.float64]


class MeasureScore(NamedTuple):
    """Scores of one measure, in percent."""

    precision: float
    recall: float
    f1: float


class CorefScore(NamedTuple):
    """Scores of all measures."""

    muc: MeasureScore
    b_cubed: MeasureScore
    ceaf: MeasureScore
    mentions: MeasureScore
    mean_f1: float
    """Of the first three."""


def evaluate(gold: Sequence[Clusters], predicted: Sequence[Clusters]) -> CorefScore:
    """Score the predicted clusters of documents against the gold ones, in the same order."""
    pairs = zip(gold, predicted, strict=True)
    return score(sum((count(*pair) for pair in pairs), start=np.zeros((4, 4))))


def count(gold: Clusters, predicted: Clusters) -> Numbers:
    """(4, 4) counts of one document, which are summed over documents.

    A row per measure: numerator and denominator of recall, then of precision.
    """
    ours, theirs = partition(predicted), partition(gold)
    cluster_of = {mention: j for j, cluster in enumerate(ours) for mention in cluster}
    shared = np.zeros((len(theirs), len(ours)))  # (G, P)
    for i, cluster in enumerate(theirs):
        for mention in cluster_of.keys() & cluster:
            shared[i, cluster_of[mention]] += 1
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
    """The scores of summed counts, (4, 4)."""
    recall, precision = _quotients(counts)
    columns = (precision.tolist(), recall.tolist(), f1(counts).tolist())
    muc, b_cubed, ceaf, mentions = (MeasureScore(*row) for row in zip(*columns, strict=True))
    return CorefScore(muc, b_cubed, ceaf, mentions, float(mean_f1(counts)))


def mean_f1(counts: Numbers) -> Numbers:
    """Mean F1 of MUC, B³ and CEAFφ4 in percent: (..., 4, 4) -> (...)."""
    return np.asarray(f1(counts)[..., :3].mean(-1))


def f1(counts: Numbers) -> Numbers:
    """F1 of each measure in percent: (..., 4, 4) -> (..., 4)."""
    recall, precision = _quotients(counts)
    return _divide(2 * recall * precision, recall + precision)


def partition(clusters: Clusters) -> list[list[Mention]]:
    """Disjoint clusters: each mention stays in its first one, and empty ones are dropped."""
    seen: set[Mention] = set()
    found: list[list[Mention]] = []
    for cluster in clusters:
        fresh = [mention for mention in dict.fromkeys(cluster) if mention not in seen]
        seen.update(fresh)
        found += [fresh] if fresh else []
    return found


def best_pairs(values: Numbers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of the one-to-one pairs whose values (R, C) have the maximum sum.

    The Hungarian algorithm with shortest augmenting paths: rows are added one by one, in at most
    R² C steps.
    """
    if values.shape[0] > values.shape[1]:
        columns, rows = best_pairs(values.T)
        return rows, columns
    R, C = values.shape
    prices = np.zeros(C)
    row_of = np.full(C, -1)
    for row in range(R):
        _add_row(row, -values, prices, row_of)
    columns = np.flatnonzero(row_of >= 0)
    return row_of[columns], columns


def _add_row(row: int, costs: Numbers, prices: Numbers, row_of: NDArray[np.int64]) -> None:
    """Assign a column to the row, moving other rows if cheaper; updates prices and row_of."""
    C = len(prices)
    lengths, came_from = np.full(C, np.inf), np.full(C, -1)  # shortest path to each column
    is_done = np.zeros(C, dtype=bool)
    column, length, here = -1, 0.0, row
    while True:
        # Cost of a column for the current row, relative to the column it has.
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


def _quotients(counts: Numbers) -> tuple[Numbers, Numbers]:
    """Recall and precision in percent: (..., 4, 4) -> (..., 4) each."""
    both = _divide(100 * counts[..., 0::2], counts[..., 1::2])  # (..., 4, 2)
    return both[..., 0], both[..., 1]


def _divide(above: Numbers, below: Numbers) -> Numbers:
    """The quotient, 0 where the denominator is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
