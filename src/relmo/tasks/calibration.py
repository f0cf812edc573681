"""Scores that mean something: a temperature that makes a model's probabilities true on average.

A trained network is surer than it should be. Its scores before the last softmax are divided by one
number, the temperature, chosen on the development part so that of the answers with probability 0.9
nine in ten are right (Guo et al. 2017, *On calibration of modern neural networks*). The best answer
stays the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from relmo.progress import working

Judged = Sequence[tuple[float, bool]]
"""The score of each answer, and whether it is right."""

COLDEST, HOTTEST = 0.2, 20.0
"""Bounds of a temperature."""
ROUNDS = 18
"""Steps of the search, after which the bounds are 0.1 % apart."""
BINS = 15
"""Of scores, for the calibration error."""
LEAST = 1e-4
"""Probability that a wrong answer costs at most: one outlier must not decide."""
GOLDEN = (math.sqrt(5) - 1) / 2


def best_temperature(judged_at: Callable[[float], Judged]) -> float:
    """The temperature at which scores are the most probable, by golden-section search.

    Args:
        judged_at: answers of the same model and examples with their scores at a temperature.
    """
    with working("calibrating: temperatures tried", 2 + ROUNDS) as work:

        def cost(log_temperature: float) -> float:
            found = surprise(judged_at(math.exp(log_temperature)))
            work.advance()
            return found

        low, high = math.log(COLDEST), math.log(HOTTEST)
        inner = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
        costs = [cost(each) for each in inner]
        for _ in range(ROUNDS):
            if costs[0] <= costs[1]:
                high = inner[1]
                inner = [high - GOLDEN * (high - low), inner[0]]
                costs = [cost(inner[0]), costs[0]]
            else:
                low = inner[0]
                inner = [inner[1], low + GOLDEN * (high - low)]
                costs = [costs[1], cost(inner[1])]
    return math.exp((low + high) / 2)


def surprise(judged: Judged) -> float:
    """Mean -log p that an answer is right, or wrong, as it is."""
    if not judged:
        return 0.0
    score, is_right = np.array([s for s, _ in judged]), np.array([r for _, r in judged])
    p = np.where(is_right, score, 1 - score)
    return float(-np.log(np.clip(p, LEAST, 1)).mean())


def calibration_error(judged: Judged, bins: int = BINS) -> float:
    """Expected calibration error: how far scores are from the share that is right, from 0 to 1.

    Answers are sorted into bins of equal width by their score; in each, the mean score is compared
    with the share of right answers, and bins are weighed by their number of answers.
    """
    if not judged:
        return 0.0
    score, is_right = np.array([s for s, _ in judged]), np.array([float(r) for _, r in judged])
    place = np.minimum((score * bins).astype(int), bins - 1)
    gap = np.bincount(place, score - is_right, bins)  # (bins,) sums
    return float(np.abs(gap).sum() / len(score))
