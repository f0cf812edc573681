"""Pieces of work at once, each in a thread of its own.

The directions of a biLM are independent, so each may have a thread of its own. That is faster than
both threads on each small product, and robust: a product that waits for a thread which another
program holds up would stand still.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Result = TypeVar("Result")
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}  # by process (a fork has no threads), size


def run_both(one: Callable[[], Result], other: Callable[[], Result]) -> tuple[Result, Result]:
    """Results of both, without gradients; one after the other where torch has a single thread."""
    threads = torch.get_num_threads()
    if threads == 1:
        return _with_threads(one, 1), _with_threads(other, 1)
    pool = pool_of(2)
    first = pool.submit(_with_threads, one, threads // 2)
    second = pool.submit(_with_threads, other, threads - threads // 2)
    results = first.result(), second.result()
    torch.set_num_threads(threads)  # new threads take the number set last, in any thread
    return results


def run_each(works: Sequence[Callable[[], Result]]) -> list[Result]:
    """Results of all, without gradients, each by a single thread; as many at once as torch has."""
    threads = torch.get_num_threads()
    if threads == 1 or len(works) == 1:
        return [_with_threads(work, threads) for work in works]
    results = list(pool_of(threads).map(lambda work: _with_threads(work, 1), works))
    torch.set_num_threads(threads)  # new threads take the number set last, in any thread
    return results


def pool_of(threads: int) -> ThreadPoolExecutor:
    """This process's pool of that many threads, created on first use."""
    key = os.getpid(), threads
    pool = _pools.get(key)
    return pool or _pools.setdefault(key, ThreadPoolExecutor(threads, "relmo"))


def _with_threads(work: Callable[[], Result], threads: int) -> Result:
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)  # for this thread alone
    with torch.no_grad(), torch.autocast("cpu", enabled=False):  # threads of the pool have neither
        return work()
