"""Memory of a process."""

from __future__ import annotations

import sys
from pathlib import Path


def peak_mb() -> int:
    """The most megabytes of memory that this process has held so far.

    Linux tells it for this program alone; `getrusage` would count what the process was before it
    became this program, which is as large as the parent that started it.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 // 10**6
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 10**6
