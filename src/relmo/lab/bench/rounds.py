"""Everything that is compared is measured in turns, so that a busy moment hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

Result = TypeVar("Result")
MIN_ROUNDS = 3
"""The fewest that have a median worth its name."""


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """How long one call takes, in seconds, and what it gives."""
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def seconds_of(work: Callable[[], object]) -> float:
    """How long one call takes."""
    return timed(work)[0]


def rounds(seconds: float, clock: Callable[[], float] = time.perf_counter) -> Iterator[int]:
    """Numbers of rounds: 0 is for warming up, then as many as fit, `MIN_ROUNDS` at least."""
    yield 0
    begin, number = clock(), 1
    while number <= MIN_ROUNDS or clock() - begin < seconds:
        yield number
        number += 1
