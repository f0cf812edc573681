"""Between host and device, without waiting for work that is under way there."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from relmo.kernels.side_by_side import pool_of

Result = TypeVar("Result")
MOST_THREADS = 8


def in_threads(work: Callable[[range], list[Result]], count: int) -> list[Result]:
    """What `work` gives for range(count), in order; parts of it are done side by side."""
    threads = min(MOST_THREADS, os.cpu_count() or 1, max(1, count))
    ends = [count * i // threads for i in range(threads + 1)]
    parts = pool_of(MOST_THREADS).map(work, map(range, ends[:-1], ends[1:]))
    return [result for part in parts for result in part]
