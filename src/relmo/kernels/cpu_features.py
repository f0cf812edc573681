"""What this CPU can multiply, as far as it decides how a product is computed.

Some hypervisors expose a CPU's matrix tiles (AMX) but hide leaf 29 of CPUID, which gives their
size. oneDNN then configures tiles of size zero, and the first product in bfloat16 or int8 ends the
process with an illegal instruction. oneDNN reads once, at its first use, how far it may go.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import torch

CPUINFO = Path("/proc/cpuinfo")
"""Linux: the properties of each core, one after the other."""
FIRST_CORE = 8192
"""Bytes that contain the first core's part."""
ONEDNN_LIMIT = "ONEDNN_MAX_CPU_ISA"
WITHOUT_TILES = "AVX512_CORE_FP16"
TILE_LEAF = 29
FEW_ROWS, ROWS_AT_ONCE = 12, 4
"""Below so many rows MKL may round those that do not fill a group of four another way."""


def has_op(library: str, name: str) -> bool:
    """Whether torch was built with an operator."""
    return hasattr(getattr(torch.ops, library), name)


def has_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 itself."""
    check = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(check and check()) and has_op("mkldnn", "_linear_pointwise")


def has_mkl() -> bool:
    """Whether torch has MKL's packed products."""
    return torch._C.has_mkl and has_op("mkl", "_mkl_linear")


def has_int8() -> bool:
    """Whether torch has 8-bit products with 32-bit sums: without VNNI, 16-bit sums saturate."""
    return has_op("onednn", "qlinear_pointwise") and torch.cpu._is_vnni_supported()


def avoid_hidden_tiles() -> None:
    """Tell oneDNN not to use tiles where they cannot be configured, unless the user has set it."""
    try:
        with CPUINFO.open(encoding="utf-8", errors="replace") as file:
            text = file.read(FIRST_CORE)
    except OSError:
        return
    if hides_tiles(text):
        os.environ.setdefault(ONEDNN_LIMIT, WITHOUT_TILES)


def uses_tiles() -> bool:
    """Whether oneDNN multiplies with tiles: the CPU has them and oneDNN was not told otherwise."""
    limit = (os.environ.get(ONEDNN_LIMIT) or "ALL").upper()
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


@cache
def rounds_rows_in_groups() -> bool:
    """Whether MKL rounds a row alone another way than among others; found by trying.

    So it is on CPUs for which MKL has no AVX-512 kernels, AMD's among them.
    """
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(64, 64, generator=generator)
    x = torch.randn(ROWS_AT_ONCE, 64, generator=generator)
    packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, ROWS_AT_ONCE)
    rows = [torch.ops.mkl._mkl_linear(each, packed, weight, None, len(each)) for each in (x, x[:1])]
    return not torch.equal(rows[0][:1], rows[1])
