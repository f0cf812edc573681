"""Memory that is not needed now goes back to the system: pages of packed weights, freed blocks.

A model's file is mapped, not read: its pages come into memory as they are touched, and packing
touches them all. What was packed is seldom looked at again, so its pages are let go; who does look
finds the same numbers, from the file. Only pages that no one has written to: those are the file's
own, and all others stay.

Blocks that are freed stay with the process, a stock for each of its threads, so what one phase of
the work has freed does not serve the next.

On Linux with glibc; elsewhere nothing happens.
"""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from typing import Any

import numpy as np
from torch import Tensor

PAGEMAP = "/proc/self/pagemap"
"""Linux: 64 bits about each page of this process."""
PRESENT, SWAPPED, OF_A_FILE = (np.uint64(1 << bit) for bit in (63, 62, 61))


def let_go(tensor: Tensor) -> bool:
    """Let the pages of a tensor leave memory where a file has them; say whether it did."""
    libc = _libc()
    if tensor.device.type != "cpu" or not tensor.is_contiguous() or libc is None:
        return False
    page = mmap.PAGESIZE
    first = -(-tensor.data_ptr() // page)  # only pages that are the tensor's alone
    count = (tensor.data_ptr() + tensor.nbytes) // page - first
    if count <= 0 or not _are_of_a_file(first, count):
        return False
    start, size = ctypes.c_void_p(first * page), ctypes.c_size_t(count * page)
    return bool(libc.madvise(start, size, mmap.MADV_DONTNEED) == 0)


def give_back_freed() -> None:
    """Give blocks that are freed back to the system: some milliseconds, for large work only."""
    libc = _libc()
    if libc is not None:
        libc.malloc_trim(0)


def _are_of_a_file(first: int, count: int) -> bool:
    """Whether a file, or memory that is shared, still has all that these pages hold."""
    try:
        with open(PAGEMAP, "rb", buffering=0) as file:  # noqa: PTH123 - no path of a user's
            file.seek(8 * first)
            pages = np.frombuffer(file.read(8 * count), np.uint64)  # (pages,)
    except OSError:
        return False
    is_written = (pages & (PRESENT | OF_A_FILE)) == PRESENT
    return len(pages) == count and not (is_written | ((pages & SWAPPED) != 0)).any()


@cache
def _libc() -> Any:  # noqa: ANN401 - ctypes has no types
    """The C library, where it can do both."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # Windows has none by that name
        return None
    can = hasattr(mmap, "MADV_DONTNEED") and hasattr(library, "malloc_trim")
    return library if can else None
