"""Matrix tiles (AMX) that a virtual machine shows and hides: they are left alone.

Some hypervisors show a CPU's tiles but hide leaf 29 of CPUID, which says how large they are. oneDNN
then sets up tiles of no size, and the first product in bfloat16 or int8 ends the process with an
illegal instruction. oneDNN reads once, at its first use, how far it may go.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch

CPUINFO = Path("/proc/cpuinfo")
"""Linux: what each core says of itself, one after the other."""
FIRST_CORE = 8192
"""Bytes that hold the first core's part."""
LIMIT = "ONEDNN_MAX_CPU_ISA"
WITHOUT_TILES = "AVX512_CORE_FP16"
TILE_LEAF = 29


def leave_hidden_tiles_alone() -> None:
    """Tell oneDNN to do without tiles where they cannot be set up, unless a user has told it."""
    try:
        with CPUINFO.open(encoding="utf-8", errors="replace") as file:
            text = file.read(FIRST_CORE)
    except OSError:
        return
    if hides_tiles(text):
        os.environ.setdefault(LIMIT, WITHOUT_TILES)


def uses_tiles() -> bool:
    """Whether oneDNN multiplies with tiles: the CPU has them and nothing told it to do without."""
    limit = (os.environ.get(LIMIT) or "ALL").upper()
    return torch.cpu._is_amx_tile_supported() and ("AMX" in limit or limit in ("ALL", "DEFAULT"))


def hides_tiles(cpuinfo: str) -> bool:
    """Whether a core has tiles but not the leaf of CPUID that describes them."""
    facts = {}
    for line in cpuinfo.split("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        facts[name.strip()] = value.strip()
    has_tiles = "amx_tile" in facts.get("flags", "").split()
    level = facts.get("cpuid level", "")
    return has_tiles and level.isdecimal() and int(level) < TILE_LEAF
