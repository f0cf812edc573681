"""The host's threads and memory: work in parallel, memory left and given back to the system.

A model's file is mapped, not read: its pages enter memory when they are touched, and packing the
weights touches them all. Packed weights are seldom looked at again, so their pages are released;
whoever does look reads the same numbers from the file. Blocks that are freed stay with the process,
in a pool per thread, so what one phase of the work has freed does not serve the next: `trim_memory`
returns them. On Linux with glibc; elsewhere nothing happens.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from relmo.kernels.threads import pool_of

Result = TypeVar("Result")
MOST_THREADS = 8
MEMINFO, STATUS, GROUPS = (Path("/proc", n) for n in ("meminfo", "self/status", "self/cgroup"))
GROUP_ROOT = Path("/sys/fs/cgroup")
PAGEMAP = "/proc/self/pagemap"
"""Linux: 64 bits about each page of this process."""
PRESENT, SWAPPED, OF_A_FILE = (np.uint64(1 << bit) for bit in (63, 62, 61))

# ── threads ─────────────────────────────────────────────────────────────────────────────────────


def in_threads(work: Callable[[range], list[Result]], count: int) -> list[Result]:
    """What `work` returns for range(count), in order; parts of it run in parallel."""
    threads = min(MOST_THREADS, os.cpu_count() or 1, max(1, count))
    ends = [count * i // threads for i in range(threads + 1)]
    parts = pool_of(MOST_THREADS).map(work, map(range, ends[:-1], ends[1:]))
    return [result for part in parts for result in part]


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


# ── memory ──────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def no_collection() -> Iterator[None]:
    """Make many objects that cannot be in cycles without the collector, which visits each often."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


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


def available_memory(device: torch.device) -> int | None:
    """Bytes that this process may still take there, None if nothing tells.

    On a CPU the least of what the system has left, what the process's control groups have left, and
    what a limit on its address space leaves (`ulimit -v`).
    """
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + kept
    found = [_numbers(MEMINFO).get("MemAvailable"), *_left_in_groups(), _left_of_addresses()]
    return min((left for left in found if left is not None), default=None)


def _left_in_groups() -> Iterator[int]:
    """What the memory limits of this process's control groups leave, version 1 and 2."""
    names = ("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")
    for line in _read(GROUPS).splitlines():
        _, kinds, own = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        root = GROUP_ROOT / "memory" if kinds else GROUP_ROOT
        limit, usage = names[bool(kinds)]
        own_path = root / own.lstrip("/")  # in a container the root is the process's own group
        for place in (own_path, *own_path.parents):
            most, used = _read(place / limit).strip(), _read(place / usage).strip()
            if most.isdigit() and used.isdigit():
                # Pages of files count as used, but are given up when memory is needed.
                pages = _numbers(place / "memory.stat", scale=1)
                yield int(most) - int(used) + pages.get("inactive_file", 0)
            if place == root:
                break


def _left_of_addresses() -> int | None:
    """What a limit on the address space leaves."""
    try:
        import resource  # not on Windows
    except ImportError:
        return None
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most == resource.RLIM_INFINITY:
        return None
    return most - _numbers(STATUS).get("VmSize", 0)


def _numbers(path: Path, scale: int = 1024) -> dict[str, int]:
    """`name: number kB` lines of a file, in bytes; empty if it cannot be read."""
    fields = (line.replace(":", " ").split() for line in _read(path).splitlines())
    return {f[0]: int(f[1]) * scale for f in fields if len(f) > 1 and f[1].isdigit()}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


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
