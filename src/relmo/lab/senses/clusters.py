"""Clusters of vectors by average linkage, their number found by the data: one is possible.

Two clusters are as similar as the vectors of one are to those of the other on average. The most
similar ones are joined until none are similar enough; what is too small for a sense of its own then
goes to the nearest of the others.

Shapes: N vectors, K clusters, F width.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from relmo.runtime.pooling import normalize
from relmo.types import Vectors

Labels = NDArray[np.int64]
"""(N,) the number of each vector's cluster, the largest cluster first: 0."""


def cluster(
    vectors: Vectors, threshold: float, *, smallest: float = 0.0, linked: int = 1000
) -> Labels:
    """The cluster of each vector (N, F).

    Args:
        vectors: of unit length, or centered and then of unit length.
        threshold: clusters less similar than this stay apart.
        smallest: share of all vectors below which a cluster is dissolved; fewer than two always.
        linked: vectors that are linked at most, evenly spaced; others go to the nearest cluster.
    """
    N = len(vectors)
    chosen = np.unique(np.linspace(0, N - 1, min(N, linked)).astype(np.int64))
    labels = cut(*link(vectors[chosen]), threshold)
    sizes = np.bincount(labels)
    kept = np.flatnonzero(sizes >= max(2.0, smallest * len(chosen)))
    if len(kept) <= 1:
        return np.zeros(N, np.int64)
    means = np.stack([vectors[chosen[labels == number]].mean(0) for number in kept])  # (K, F)
    nearest = (vectors @ normalize(means).T).argmax(1)  # (N,)
    own = np.isin(labels, kept)
    nearest[chosen[own]] = np.searchsorted(kept, labels[own])
    return by_size(nearest)


def link(vectors: Vectors) -> tuple[Labels, Vectors]:
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


def cut(pairs: Labels, heights: Vectors, threshold: float) -> Labels:
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
