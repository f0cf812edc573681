"""A few of many passages, the same ones each time, in bounded memory."""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Iterable

SAMPLE = 2048
"""Passages that an encoder is fitted to."""


def sample_passages(texts: Iterable[str], count: int = SAMPLE) -> list[str]:
    """The distinct texts with the lowest checksums: as good as chosen by lot, without chance."""
    heap: list[tuple[int, str]] = []
    held: set[str] = set()
    for text in texts:
        rank = -zlib.crc32(text.encode("utf-8", "surrogatepass"))
        if (len(heap) == count and rank <= heap[0][0]) or text in held:
            continue
        held.add(text)
        if len(heap) < count:
            heapq.heappush(heap, (rank, text))
        else:
            held.discard(heapq.heappushpop(heap, (rank, text))[1])
    return [text for _, text in sorted(heap)]
