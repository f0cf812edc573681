"""Occurrences of one word as points on a plane, with clusters.

Made for the tens of sentences a person types: plain numpy, and deterministic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from relmo.types import Vectors

MAX_CLUSTERS = 5
MIN_SILHOUETTE = 0.15
"""Below this score the occurrences count as one cluster."""
MAX_ITERATIONS = 50


class WordMap(NamedTuple):
    """Points and clusters, in the order of the occurrences."""

    points: NDArray[np.float64]
    """(N, 2) coordinates on the first two principal components."""
    shares: NDArray[np.float64]
    """(2,) share of the variance that each component explains."""
    clusters: NDArray[np.int64]
    """(N,) cluster numbers from 0, in the order of first occurrence."""


def map_words(vectors: Vectors) -> WordMap:
    """Map vectors (N, D), of which only the direction counts."""
    x = vectors.astype(np.float64)
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    x -= x.mean(0)
    u, s, _ = np.linalg.svd(x, full_matrices=False)  # (N, min(N, D)), (min(N, D),)
    u, s = u[:, :2], s[:2]
    signs = np.sign(u[np.abs(u).argmax(0), range(u.shape[1])])  # SVD leaves the sign open: fix it
    points, shares = np.zeros((len(x), 2)), np.zeros(2)
    points[:, : len(s)] = u * s * signs
    shares[: len(s)] = s**2 / max(float((x**2).sum()), 1e-12)
    return WordMap(points, shares, find_clusters(x))


def find_clusters(x: NDArray[np.float64]) -> NDArray[np.int64]:
    """(N, D) -> cluster numbers (N,); the number of clusters is the one that separates best."""
    # row by row: an array (N, N, D) would take gigabytes, and scalar products would not be exact
    distances = np.stack([np.linalg.norm(x - row, axis=1) for row in x])  # (N, N)
    best, best_score = np.zeros(len(x), np.int64), MIN_SILHOUETTE
    for count in range(2, min(MAX_CLUSTERS, len(x) - 1) + 1):
        clusters = k_means(x, distances, count)
        score = silhouette(distances, clusters)
        if score > best_score + 1e-9:
            best, best_score = clusters, score
    _, first, numbers = np.unique(best, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[numbers], dtype=np.int64)


def k_means(
    x: NDArray[np.float64], distances: NDArray[np.float64], count: int
) -> NDArray[np.int64]:
    """Lloyd's algorithm, started from points far from each other."""
    starts = [int(distances.sum(1).argmax())]
    while len(starts) < count:
        starts.append(int(distances[:, starts].min(1).argmax()))
    centers, clusters = x[starts], np.full(len(x), -1)
    for _ in range(MAX_ITERATIONS):
        nearest = np.linalg.norm(x[:, None] - centers[None], axis=2).argmin(1)
        if (nearest == clusters).all():
            break
        clusters = nearest
        members = [x[clusters == c] for c in range(count)]
        centers = np.stack([m.mean(0) if len(m) else centers[c] for c, m in enumerate(members)])
    return clusters


def silhouette(distances: NDArray[np.float64], clusters: NDArray[np.int64]) -> float:
    """Mean silhouette score, from -1 to 1; -1 for a single cluster, 0 for a point alone in its."""
    members = clusters == np.unique(clusters)[:, None]  # (K, N)
    if len(members) < 2:
        return -1.0
    scores = []
    for i, own in enumerate(members.argmax(0)):
        others = members[own] & (np.arange(len(clusters)) != i)
        if not others.any():
            scores.append(0.0)
            continue
        a = distances[i, others].mean()
        b = min(distances[i, each].mean() for c, each in enumerate(members) if c != own)
        scores.append(float((b - a) / max(a, b, 1e-12)))
    return float(np.mean(scores))
