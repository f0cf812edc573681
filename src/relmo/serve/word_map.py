"""Occurrences of one word -> points of a plane and clusters: small, plain, always the same.

For tens of vectors, as a person types them: no library is needed, and nothing is random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from relmo.types import Vectors

MOST_CLUSTERS = 5
GOOD_SILHOUETTE = 0.15
"""Below this the occurrences are called one cluster: they do not fall apart."""
ROUNDS = 50


@dataclass(frozen=True)
class WordMap:
    """Where occurrences stand, in the order in which they came."""

    points: NDArray[np.float64]
    """(N, 2) along the two directions in which the vectors differ most."""
    shares: NDArray[np.float64]
    """(2,) of the variance that each of them holds."""
    clusters: NDArray[np.int64]
    """(N,) numbers from 0, by first occurrence."""


def map_words(vectors: Vectors) -> WordMap:
    """(N, D), each scaled to length one -> their map."""
    x = vectors.astype(np.float64)
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    x -= x.mean(0)
    points, shares = principal(x)
    return WordMap(points, shares, clusters_of(x))


def principal(x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Centred (N, D) -> (N, 2) on the two main axes, and their shares of the variance."""
    u, s, _ = np.linalg.svd(x, full_matrices=False)
    u, s = u[:, :2], s[:2]
    signs = np.sign(u[np.abs(u).argmax(0), range(u.shape[1])])  # an axis has no direction: fix one
    points = np.zeros((len(x), 2))
    points[:, : len(s)] = u * s * signs
    shares = np.zeros(2)
    shares[: len(s)] = s**2 / max(float((x**2).sum()), 1e-12)
    return points, shares


def clusters_of(x: NDArray[np.float64]) -> NDArray[np.int64]:
    """(N, D) -> (N,) cluster numbers; as many clusters as stand apart best."""
    distances = np.linalg.norm(x[:, None] - x[None], axis=2)  # (N, N)
    best, best_score = np.zeros(len(x), np.int64), GOOD_SILHOUETTE
    for count in range(2, min(MOST_CLUSTERS, len(x) - 1) + 1):
        found = k_means(x, distances, count)
        score = silhouette(distances, found)
        if score > best_score + 1e-9:
            best, best_score = found, score
    _, first, numbers = np.unique(best, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[numbers], dtype=np.int64)


def k_means(
    x: NDArray[np.float64], distances: NDArray[np.float64], count: int
) -> NDArray[np.int64]:
    """Lloyd's rounds from starts that stand far from each other."""
    starts = [int(distances.sum(1).argmax())]
    while len(starts) < count:
        starts.append(int(distances[:, starts].min(1).argmax()))
    centres, found = x[starts], np.full(len(x), -1)
    for _ in range(ROUNDS):
        nearest = np.linalg.norm(x[:, None] - centres[None], axis=2).argmin(1)
        if (nearest == found).all():
            break
        found = nearest
        centres = np.stack(
            [x[found == c].mean(0) if (found == c).any() else centres[c] for c in range(count)]
        )
    return found


def silhouette(distances: NDArray[np.float64], clusters: NDArray[np.int64]) -> float:
    """How much nearer the others of one's own cluster are than those of the next: -1 to 1."""
    numbers = np.unique(clusters)
    if len(numbers) < 2:
        return -1.0
    scores = []
    for i, own in enumerate(clusters):
        same = (clusters == own) & (np.arange(len(clusters)) != i)
        if not same.any():
            scores.append(0.0)
            continue
        a = distances[i, same].mean()
        b = min(distances[i, clusters == other].mean() for other in numbers if other != own)
        scores.append(float((b - a) / max(a, b, 1e-12)))
    return float(np.mean(scores))
