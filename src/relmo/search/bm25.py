"""The lexical score, and the order of hits that all stores share."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from relmo.search.store import K1, B, Scored

DECIMALS = 5
"""Scores are rounded so: equal passages come out equal wherever they are computed."""


def bm25(
    frequency: NDArray[np.float64], length: NDArray[np.float64], mean_length: float, total: int
) -> NDArray[np.float64]:
    """What one term adds to the score of each passage that holds it, (n,).

    Args:
        frequency: how often the passage holds the term, (n,).
        length: terms of the passage, (n,).
        mean_length: over all passages.
        total: number of all passages.
    """
    held = len(frequency)
    rarity = math.log(1 + (total - held + 0.5) / (held + 0.5))
    room = K1 * (1 - B + B * length / mean_length)
    return np.asarray(rarity * frequency * (K1 + 1) / (frequency + room))


def ranked(ids: NDArray[np.int64], scores: NDArray[np.floating], count: int) -> list[Scored]:
    """The best passages, best first; of equal scores the lower number comes first."""
    if count < len(scores):  # look closer only at those that may be among them after rounding
        worst = np.partition(scores, len(scores) - count)[len(scores) - count]
        kept = np.flatnonzero(scores >= worst - 2 * 10.0**-DECIMALS)
        ids, scores = ids[kept], scores[kept]
    rounded = np.round(scores.astype(np.float64), DECIMALS)
    order = np.lexsort((ids, -rounded))[:count]
    return [Scored(int(ids[i]), float(rounded[i])) for i in order]
