"""Everything that is compared is measured in turns, so that a busy moment hits all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence

MIN_ROUNDS = 3
"""The fewest that have a median worth its name."""


def seconds_of(work: Callable[[], object]) -> float:
    """How long one call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def rounds(seconds: float, clock: Callable[[], float] = time.perf_counter) -> Iterator[int]:
    """Numbers of rounds: 0 is for warming up, then as many as fit, `MIN_ROUNDS` at least."""
    yield 0
    begin, number = clock(), 1
    while number <= MIN_ROUNDS or clock() - begin < seconds:
        yield number
        number += 1


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return statistics.median(values)
