"""This machine: what it is, how fast it multiplies and reads."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from relmo import __version__
from relmo.bench.rounds import median, seconds_of
from relmo.bench.work import BYTES, Rates, step_weights
from relmo.config import LstmConfig
from relmo.kernels.cpu_products import Precision, has_bfloat16, make_product

WIDTH = 1024
"""Rows and columns of the matrices that are multiplied."""
MEMORY_MB = 256
"""A block that no cache holds."""


def describe_machine() -> dict[str, Any]:
    """CPU, threads and versions; nothing that names the host."""
    return {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "bfloat16_instructions": has_bfloat16(),
        "system": platform.system(),
        "python": platform.python_version(),
        "relmo": __version__,
        "torch": torch.__version__,
        "numpy": version("numpy"),
    }


def cpu_name() -> str:
    """The CPU as the system calls it."""
    facts = Path("/proc/cpuinfo")
    if facts.is_file():
        for line in facts.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def load_average() -> float | None:
    """Processes that wanted to run in the last minute, this one among them."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


class Machine:
    """Measures the machine, once per round.

    Args:
        lstm: the model's; the blocks read are as large as its recurrent weights.
        precisions: to measure.
    """

    def __init__(self, lstm: LstmConfig, precisions: tuple[Precision, ...]) -> None:
        self._products = {precision: _contenders(precision) for precision in precisions}
        self._flops: dict[str, list[list[float]]] = {
            precision: [[] for _ in works] for precision, works in self._products.items()
        }
        weights = 2 * step_weights(lstm)  # both directions are at it at once
        self._blocks = {p: torch.ones(max(1, weights * BYTES[p] // 4)) for p in precisions}
        self._blocks_read: dict[str, list[float]] = {precision: [] for precision in precisions}
        self._memory = torch.ones(MEMORY_MB * 2**18)
        self._memory_read: list[float] = []

    def measure(self, keep: bool) -> None:
        """One round; where it warms up, nothing is kept."""
        for precision, works in self._products.items():
            for work, found in zip(works, self._flops[precision], strict=True):
                seconds = seconds_of(work)
                if keep:
                    found.append(2 * WIDTH**3 / seconds)
        for precision, block in self._blocks.items():
            block.sum()  # into the cache, if it fits
            seconds = seconds_of(block.sum)
            if keep:
                self._blocks_read[precision].append(4 * block.numel() / seconds)
        seconds = seconds_of(self._memory.sum)
        if keep:
            self._memory_read.append(4 * self._memory.numel() / seconds)

    def rates(self, precision: Precision) -> Rates:
        """Medians; the fastest way to multiply counts, and float32 may stand in for bfloat16."""
        ways = list(self._flops[precision])
        if precision == "bfloat16":
            ways += self._flops.get("float32", [])
        return Rates(max(map(median, ways)), median(self._blocks_read[precision]))

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it: GFLOP/s and GB/s."""
        return {
            "gflop_per_second": {
                precision: round(max(map(median, ways)) / 1e9, 1)
                for precision, ways in self._flops.items()
            },
            "weights_gb_per_second": {
                precision: round(median(found) / 1e9, 1)
                for precision, found in self._blocks_read.items()
            },
            "memory_gb_per_second": round(median(self._memory_read) / 1e9, 1),
        }


def _contenders(precision: Precision) -> list[Callable[[], object]]:
    """Ways to multiply at a precision: the engine's own, and torch's plain product."""
    x, weight = torch.randn(WIDTH, WIDTH), torch.randn(WIDTH, WIDTH)
    packed = make_product(weight, precision)
    works: list[Callable[[], object]] = [lambda: packed(x)]
    if precision == "int8":
        whole, other = (torch.ones(WIDTH, WIDTH, dtype=torch.int8) for _ in range(2))
        works.append(lambda: torch._int_mm(whole, other))
    else:
        dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        left, right = x.to(dtype), weight.to(dtype)
        works.append(lambda: left @ right)
    return works
