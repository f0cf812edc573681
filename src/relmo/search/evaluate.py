"""How good a ranking is, and how well similarities agree with people's."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def ndcg(ranking: Sequence[str], relevant: Collection[str], k: int = 10) -> float:
    """Normalised discounted cumulative gain at k, documents being relevant or not."""
    if not relevant:
        return 0.0
    gain = sum(1 / math.log2(i + 2) for i, each in enumerate(ranking[:k]) if each in relevant)
    best = sum(1 / math.log2(i + 2) for i in range(min(k, len(relevant))))
    return gain / best


def spearman(first: ArrayLike, second: ArrayLike) -> float:
    """Correlation of ranks; equal values share the mean of their ranks."""
    return float(np.corrcoef(_ranks(np.asarray(first)), _ranks(np.asarray(second)))[0, 1])


def _ranks(values: NDArray[np.floating]) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray(((last - counts + 1 + last) / 2)[inverse])
