"""A few trials of each fault, each kind in a process that may fork; `make faults` runs hundreds."""

import os
import subprocess
import sys

import pytest

KINDS = ["kills", "bit_flips", "two_writers", "closed_pipes", "clock_jumps", "server",
         "full_disks", "read_only_folders"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_wrong_or_silent(kind):
    command = [sys.executable, "-m", "tests.faults", "--size", "1", "--only", kind, "--seed", "7"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-2000:]
