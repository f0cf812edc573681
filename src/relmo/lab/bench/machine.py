"""This machine: what it is, how fast it multiplies and reads."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from relmo import __version__
from relmo.config import LstmConfig
from relmo.kernels.cpu_features import has_bfloat16
from relmo.kernels.cpu_products import Precision, make_product
from relmo.lab.bench.rounds import seconds_of
from relmo.lab.bench.work import BYTES, Rates, step_weights
from relmo.runtime.host import run_both

WIDTH = 1024
"""Rows and columns of the matrices that are multiplied."""
TRIES = 5
"""Calls of which the best counts, in each round."""
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


class Machine:
    """Measures the machine, a little in every round; the best it was seen to do counts.

    A floor is what could be done: moments when other programs had the cores shall not count.

    Args:
        lstm: the model's; the blocks read are as large as its recurrent weights.
    """

    def __init__(self, lstm: LstmConfig) -> None:
        self._products = {precision: _products(precision) for precision in BYTES}
        self._flops: dict[str, float] = dict.fromkeys(BYTES, 0.0)
        weights = 2 * step_weights(lstm)  # both directions are at it at once
        self._blocks = {p: torch.ones(max(2, weights * size // 4)) for p, size in BYTES.items()}
        self._blocks_read: dict[str, float] = dict.fromkeys(BYTES, 0.0)
        self._memory = torch.ones(MEMORY_MB * 2**18)
        self._memory_read = 0.0

    def measure(self) -> None:
        """One round."""
        for precision, works in self._products.items():
            seconds = min(map(_best_seconds, works))
            self._flops[precision] = max(self._flops[precision], 2 * WIDTH**3 / seconds)
        for precision, block in self._blocks.items():
            self._blocks_read[precision] = max(self._blocks_read[precision], _reading(block))
        self._memory_read = max(self._memory_read, _reading(self._memory))

    def rates(self, precision: Precision) -> Rates:
        """For the floor; float32 may stand in for bfloat16."""
        flops = self._flops[precision]
        if precision == "bfloat16":
            flops = max(flops, self._flops["float32"])
        return Rates(flops, self._blocks_read[precision])

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it: GFLOP/s and GB/s."""
        return {
            "gflop_per_second": {p: round(found / 1e9, 1) for p, found in self._flops.items()},
            "weights_gb_per_second": {
                p: round(found / 1e9, 1) for p, found in self._blocks_read.items()
            },
            "memory_gb_per_second": round(self._memory_read / 1e9, 1),
        }


def _best_seconds(work: Callable[[], object]) -> float:
    return min(seconds_of(work) for _ in range(TRIES))


def _reading(block: Tensor) -> float:
    """Bytes per second, either half by threads of its own, as the engine reads weights."""
    one, other = block.chunk(2)
    return 4 * block.numel() / _best_seconds(lambda: run_both(one.sum, other.sum))


def _products(precision: Precision) -> list[Callable[[], object]]:
    """Ways to multiply at a precision, each with all threads on it and with a half on either."""
    x, weight = torch.randn(WIDTH, WIDTH), torch.randn(WIDTH, WIDTH)
    found: list[Callable[[], object]] = []

    def add(multiply: Callable[[Tensor], Tensor], x: Tensor) -> None:
        one, other = x.chunk(2)
        found.append(lambda: multiply(x))
        found.append(lambda: run_both(lambda: multiply(one), lambda: multiply(other)))

    if precision != "bfloat16" or has_bfloat16():  # else the engine multiplies in float32
        add(make_product(weight, precision), x)
    if precision == "int8":
        ones = torch.ones(WIDTH, WIDTH, dtype=torch.int8)
        add(lambda x: torch._int_mm(x, ones), ones)
    else:
        dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        right = weight.to(dtype)
        add(lambda x: x @ right, x.to(dtype))
    return found
