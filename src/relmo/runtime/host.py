"""The host's threads and memory: two pieces of work at once, memory given back to the system.

The directions of a biLM are independent, so each may have a thread of its own. That is faster than
both threads on each small product, and robust: a product that waits for a thread which another
program holds up would stand still.

A model's file is mapped, not read: its pages enter memory when they are touched, and packing the
weights touches them all. Packed weights are seldom looked at again, so their pages are released;
whoever does look reads the same numbers from the file. Blocks that are freed stay with the process,
in a pool per thread, so what one phase of the work has freed does not serve the next: `trim_memory`
returns them. On Linux with glibc; elsewhere nothing happens.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

Result = TypeVar("Result")
MOST_THREADS = 8
PAGEMAP = "/proc/self/pagemap"
"""Linux: 64 bits about each page of this process."""
PRESENT, SWAPPED, OF_A_FILE = (np.uint64(1 << bit) for bit in (63, 62, 61))
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}  # by process (a fork has no threads), size

# ── threads ─────────────────────────────────────────────────────────────────────────────────────


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


def in_threads(work: Callable[[range], list[Result]], count: int) -> list[Result]:
    """What `work` returns for range(count), in order; parts of it run in parallel."""
    threads = min(MOST_THREADS, os.cpu_count() or 1, max(1, count))
    ends = [count * i // threads for i in range(threads + 1)]
    parts = pool_of(MOST_THREADS).map(work, map(range, ends[:-1], ends[1:]))
    return [result for part in parts for result in part]


def pool_of(threads: int) -> ThreadPoolExecutor:
    """This process's pool of that many threads, created on first use."""
    key = os.getpid(), threads
    pool = _pools.get(key)
    return pool or _pools.setdefault(key, ThreadPoolExecutor(threads, "relmo"))


@cache
def survive_fork() -> None:
    """Let torch have one thread in every process that is forked from this one from now on.

    A child has none of its parent's threads, but OpenMP believes that it has them and would wait
    for them forever. Nothing can be done for a fork while another thread uses a model.
    """
    if hasattr(os, "register_at_fork"):  # Windows cannot fork
        os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to a single thread in the block."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _with_threads(work: Callable[[], Result], threads: int) -> Result:
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)  # for this thread alone
    with torch.no_grad(), torch.autocast("cpu", enabled=False):  # threads of the pool have neither
        return work()


# ── memory ──────────────────────────────────────────────────────────────────────────────────────


def release_pages(tensor: Tensor) -> bool:
    """Release the memory of a tensor whose pages a file still has; return whether it did."""
    libc = _libc()
    if tensor.device.type != "cpu" or not tensor.is_contiguous() or libc is None:
        return False
    page = mmap.PAGESIZE
    first = -(-tensor.data_ptr() // page)  # only pages that belong to the tensor alone
    count = (tensor.data_ptr() + tensor.nbytes) // page - first
    if count <= 0 or not _are_of_a_file(first, count):
        return False
    start, size = ctypes.c_void_p(first * page), ctypes.c_size_t(count * page)
    return bool(libc.madvise(start, size, mmap.MADV_DONTNEED) == 0)


def trim_memory() -> None:
    """Return freed blocks to the system: some milliseconds, for large work only."""
    libc = _libc()
    if libc is not None:
        libc.malloc_trim(0)


def _are_of_a_file(first: int, count: int) -> bool:
    """Whether a file, or shared memory, still has everything on these pages."""
    try:
        with open(PAGEMAP, "rb", buffering=0) as file:  # noqa: PTH123 - not a path of the user's
            file.seek(8 * first)
            pages = np.frombuffer(file.read(8 * count), np.uint64)  # (pages,)
    except OSError:
        return False
    is_written = (pages & (PRESENT | OF_A_FILE)) == PRESENT
    return len(pages) == count and not (is_written | ((pages & SWAPPED) != 0)).any()


@cache
def _libc() -> Any:  # noqa: ANN401 - ctypes has no types
    """The C library, if it can do both."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # Windows has none by that name
        return None
    can = hasattr(mmap, "MADV_DONTNEED") and hasattr(library, "malloc_trim")
    return library if can else None
