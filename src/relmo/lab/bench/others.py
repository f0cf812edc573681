"""How much of the machine other programs took while something was measured."""

from __future__ import annotations

import os
import time
from pathlib import Path

STAT = Path("/proc/stat")


class Others:
    """Starts counting when it is made; ended children of this process count as our own."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()
        self._busy, self._own = _busy_seconds(), _own_seconds()

    def cores(self) -> float | None:
        """Cores' worth of time that others have had since, or None where no one tells."""
        busy = _busy_seconds()
        if busy is None or self._busy is None:
            return None
        elapsed = max(time.perf_counter() - self._begin, 1e-9)
        theirs = (busy - self._busy) - (_own_seconds() - self._own)
        return round(max(0.0, theirs / elapsed), 2)


def _busy_seconds() -> float | None:
    """Time of all cores that was not idle; what the host took from a virtual machine counts."""
    if not STAT.is_file():
        return None
    user, nice, system, _idle, _waiting, *interrupts_and_stolen = map(
        int, STAT.read_text().splitlines()[0].split()[1:9]
    )
    ticks = user + nice + system + sum(interrupts_and_stolen)
    return float(ticks / os.sysconf("SC_CLK_TCK"))


def _own_seconds() -> float:
    return sum(os.times()[:4])
