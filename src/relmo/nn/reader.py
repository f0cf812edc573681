"""Who reads: the plain biLM, or an engine that is faster where nothing is trained."""

from __future__ import annotations

from typing import Any, Literal, get_args

from torch import Tensor

from relmo.errors import ConfigError
from relmo.kernels.cpu_products import Precision, has_bfloat16
from relmo.kernels.select import uses_fast_kernels
from relmo.nn.bilm import BiLM
from relmo.nn.cpu_engine import CpuEngine
from relmo.types import BiLmState, Layers

PrecisionChoice = Precision | Literal["auto"]


def check_precision(precision: str) -> None:
    """Raise ConfigError for a precision that there is not."""
    known = (*get_args(Precision), "auto")
    if precision not in known:
        raise ConfigError(f"precision is {precision!r}; choose one of {', '.join(known)}")


class Reader:
    """Reads with a biLM in the fastest way that gives its numbers, in a chosen precision.

    On a CPU weights are packed when they are first read with, and again when they have changed.
    """

    def __init__(self, bilm: BiLM) -> None:
        self.bilm = bilm
        self.precision: Precision = "float32"
        self._engine: CpuEngine | None = None

    def use(self, precision: PrecisionChoice) -> None:
        """Choose the precision; "auto" is bfloat16 where the CPU has it, else float32."""
        check_precision(precision)
        on_cpu = self._is_on_cpu()
        if precision == "auto":
            precision = "bfloat16" if on_cpu and has_bfloat16() else "float32"
        if precision != "float32" and not on_cpu:
            raise ConfigError(f"precision {precision!r} is for CPUs; a GPU reads in 'float32'")
        self.precision = precision

    def read(
        self, x: Tensor, lengths: Tensor, state: BiLmState | None = None
    ) -> tuple[Layers, BiLmState]:
        """Read token vectors (B, T, P) whose row b is valid up to lengths[b]: see `BiLM.read`."""
        is_trained = any(p.requires_grad for p in self.bilm.parameters())
        if is_trained or not self._is_on_cpu() or not uses_fast_kernels():
            return self.bilm.read(x, lengths, state)
        engine = self._engine
        if engine is None or engine.precision != self.precision or not engine.is_current():
            engine = self._engine = CpuEngine(self.bilm, self.precision)
        return engine.read(x, lengths, state)

    def _is_on_cpu(self) -> bool:
        return next(self.bilm.parameters()).device.type == "cpu"

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: everything but the packed weights, which are made again."""
        return {**self.__dict__, "_engine": None}
