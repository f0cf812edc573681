"""A paired bootstrap: is one system better than another, or was it the choice of documents?

    compare(baseline_counts, elmo_counts, mean_f1).p

Documents are drawn with replacement, the same ones for both systems, and both are scored on each
draw. The score is any function of sums over documents, so that corpus measures such as F1 are
computed as on the real documents, not averaged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relmo.errors import ConfigError

Numbers: TypeAlias = NDArray[np.float64]
AT_ONCE = 500
"""Draws that are scored at a time, which limits memory."""


class Comparison(NamedTuple):
    """Two systems on the same documents."""

    first: float
    second: float
    difference: float
    """Second minus first."""
    low: float
    high: float
    """Bounds of the middle 95 % of the differences drawn."""
    p: float
    """One-sided: the share of draws in which the second is not better. The real documents count as
    such a draw, so p is never 0."""
    num_documents: int
    num_draws: int


def compare(
    first: Numbers,
    second: Numbers,
    score: Callable[[Numbers], Numbers],
    num_draws: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare two systems by a score of their documents' statistics.

    Args:
        first: (documents, ...) what each document adds to the first system's sums.
        second: the same for the second system and the same documents in the same order.
        score: sums (draws, ...) -> (draws,).
        num_draws: number of draws.
        seed: random seed of the draws.
    """
    if first.shape != second.shape or not len(first) or num_draws < 1:
        raise ConfigError(
            f"expected equal shapes, at least one document and at least one draw, got shapes "
            f"{first.shape} and {second.shape} and {num_draws} draws"
        )
    one, other = (float(score(system.sum(0)[None])[0]) for system in (first, second))
    rng, evenly = np.random.default_rng(seed), np.full(len(first), 1 / len(first))
    drawn = np.empty(0)  # differences, (draws,)
    while (size := min(AT_ONCE, num_draws - len(drawn))) > 0:
        # (draws, documents): how often each document is drawn
        counts = rng.multinomial(len(first), evenly, size=size).astype(np.float64)
        scores = [score(np.tensordot(counts, system, axes=1)) for system in (first, second)]
        drawn = np.append(drawn, scores[1] - scores[0])
    low, high = map(float, np.quantile(drawn, (0.025, 0.975)))
    p = float((drawn <= 0).sum() + 1) / (num_draws + 1)
    return Comparison(one, other, other - one, low, high, p, len(first), num_draws)
