"""Who reads: the plain biLM, or an engine that is faster where nothing is trained."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from relmo.errors import ConfigError
from relmo.kernels.cpu_products import Precision, has_bfloat16
from relmo.kernels.device import uses_fast_kernels
from relmo.nn.bilm import BiLM
from relmo.nn.char_cnn import CharCnn
from relmo.nn.uninitialized import versions
from relmo.runtime.cpu_engine import CpuEngine
from relmo.runtime.cpu_tokens import CpuTokens
from relmo.runtime.gpu_engine import GpuEngine
from relmo.runtime.pair import has_kernels
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
        self._engine: CpuEngine | GpuEngine | None = None
        self._engine_of: tuple[object, ...] = ()  # precision and weights that it was made for
        self._tokens: CpuTokens | None = None
        self._tokens_of: tuple[object, ...] = ()

    def use(self, precision: PrecisionChoice) -> None:
        """Choose the precision; "auto" is bfloat16 where the CPU has it, else float32."""
        check_precision(precision)
        on_cpu = self._is_on_cpu()
        if precision == "auto":
            precision = "bfloat16" if has_bfloat16() or not on_cpu else "float32"
        if precision == "int8" and not on_cpu:
            raise ConfigError("precision 'int8' is for CPUs; a GPU has 'float32' and 'bfloat16'")
        self.precision = precision

    def read(
        self, x: Tensor, lengths: Tensor, state: BiLmState | None = None
    ) -> tuple[Layers, BiLmState]:
        """Read token vectors (B, T, P) whose row b is valid up to lengths[b]: see `BiLM.read`."""
        if x.requires_grad or not self._may_pack(self.bilm):
            return self.bilm.read(x, lengths, state)
        wanted = self.precision, *versions(self.bilm)
        if self._engine is None or self._engine_of != wanted:
            self._engine, self._engine_of = self._make_engine(), wanted
        return self._engine.read(x, lengths, state)

    def _make_engine(self) -> CpuEngine | GpuEngine:
        if self._is_on_cpu():
            return CpuEngine(self.bilm, self.precision)
        dtype = torch.float32 if self.precision == "float32" else torch.bfloat16
        return GpuEngine(self.bilm, dtype)

    def token_vectors(self, words: Tensor) -> Tensor:
        """Context-free vectors of words, (U, C) or (U,) ids -> (U, P)."""
        layer = self.bilm.token_layer
        if isinstance(layer, CharCnn) and self._is_on_cpu() and self._may_pack(layer):
            wanted = versions(layer)
            if self._tokens is None or self._tokens_of != wanted:
                self._tokens, self._tokens_of = CpuTokens(layer), wanted
            return self._tokens(words)
        found: Tensor = layer(words)
        return found

    def _may_pack(self, module: nn.Module) -> bool:
        """Whether the module only reads, where there is an engine, and it is not switched off."""
        is_trained = any(p.requires_grad for p in module.parameters())
        is_float32 = next(self.bilm.parameters()).dtype == torch.float32
        has_engine = (is_float32 and self._is_on_cpu()) or has_kernels(self.bilm)
        return has_engine and not is_trained and uses_fast_kernels()

    def _is_on_cpu(self) -> bool:
        return next(self.bilm.parameters()).device.type == "cpu"

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: everything but the packed weights, which are made again."""
        return {**self.__dict__, "_engine": None, "_tokens": None}
