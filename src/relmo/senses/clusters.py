"""Clusters of vectors by average linkage, their number found by the data: one is possible.

Two clusters are as similar as the vectors of one are to those of the other on average. The most
similar ones are joined until none are similar enough; clusters too small for a sense of their own
are dissolved; then each vector goes to the nearest of the others.

Shapes: N vectors, K clusters, F width.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from relmo.runtime.pooling import normalize
from relmo.types import Vectors

Labels = NDArray[np.int64]
"""(N,) the number of each vector's cluster, the largest cluster first: 0."""
LINKED = 1000
"""Vectors that are linked at most; time grows with their square, and more with memory."""


def cluster(vectors: Vectors, threshold: float, *, smallest: float = 0.03) -> Labels:
    """The cluster of each vector (N, F), of unit length.

    Args:
        vectors: of which at most LINKED, evenly spaced, are linked.
        threshold: clusters less similar than this stay apart.
        smallest: share of the vectors below which a cluster is dissolved, and so is a single one.
    """
    N = len(vectors)
    chosen = vectors[np.unique(np.linspace(0, N - 1, min(N, LINKED)).astype(np.int64))]
    labels = cut(*link(chosen), threshold)
    kept = np.flatnonzero(np.bincount(labels) >= max(2.0, smallest * len(chosen)))
    if len(kept) <= 1:
        return np.zeros(N, np.int64)
    means = normalize(np.stack([chosen[labels == number].mean(0) for number in kept]))  # (K, F)
    return by_size((vectors @ means.T).argmax(1))


def link(vectors: Vectors) -> tuple[Labels, NDArray[np.float64]]:
    """Join the two most similar clusters until one is left: the pairs (N - 1, 2), similarities.

    A cluster has the number of its first vector; the second of a pair is joined to the first.
    """
    N = len(vectors)
    similar = (vectors @ vectors.T).astype(np.float64)  # (N, N)
    np.fill_diagonal(similar, -np.inf)
    sizes = np.ones(N)
    nearest, pairs, heights = similar.argmax(1), np.zeros((N - 1, 2), np.int64), np.zeros(N - 1)
    rows = np.arange(N)
    for step in range(N - 1):
        best = similar[rows, nearest]
        first = int(best.argmax())
        second = int(nearest[first])
        first, second = min(first, second), max(first, second)
        pairs[step], heights[step] = (first, second), similar[first, second]
        joined = similar[first] * sizes[first] + similar[second] * sizes[second]
        sizes[first] += sizes[second]
        joined /= sizes[first]
        joined[first] = -np.inf
        similar[first] = similar[:, first] = joined
        similar[second] = similar[:, second] = -np.inf
        closer = joined > similar[rows, nearest]
        stale = (nearest == first) | (nearest == second)
        nearest[closer] = first
        stale[first] = True
        nearest[stale] = similar[stale].argmax(1)
    return pairs, heights


def cut(pairs: Labels, heights: NDArray[np.float64], threshold: float) -> Labels:
    """The cluster of each vector once all pairs at least that similar are joined."""
    number = np.arange(len(pairs) + 1)
    for (first, second), height in zip(pairs, heights, strict=True):
        if height < threshold:
            break
        number[number == second] = first
    return by_size(number)


def by_size(numbers: Labels) -> Labels:
    """The same clusters numbered from 0, the largest first."""
    _, labels, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    rank = np.empty(len(sizes), np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    found: Labels = rank[labels]
    return found
