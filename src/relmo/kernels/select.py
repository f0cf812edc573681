"""Which kernel runs: by device and by what is installed; the choice can be read and overridden."""

from __future__ import annotations

import os
from importlib.util import find_spec

import torch
from torch import Tensor

from relmo.kernels import reference
from relmo.kernels.reference import LstmWeights

OVERRIDE = "RELMO_KERNELS"
"""Environment variable: "reference" switches every faster kernel off."""


def uses_fast_kernels() -> bool:
    """Whether anything but the reference may run."""
    return os.environ.get(OVERRIDE) != "reference"


def has_triton(x: Tensor) -> bool:
    """Whether Triton kernels run on this tensor."""
    return has_triton_on(x.device)


def has_triton_on(device: torch.device) -> bool:
    """Whether Triton kernels run there."""
    return device.type == "cuda" and uses_fast_kernels() and find_spec("triton") is not None


def paired_lstm(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    weights: LstmWeights,
    cell_clip: float | None,
    output_clip: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Both directions of one layer, all steps: see `reference.paired_lstm`."""
    if has_triton(x) and weights.projection is not None:
        from relmo.kernels import triton_lstm

        return triton_lstm.paired_lstm(x, h, c, weights, cell_clip, output_clip)
    return reference.paired_lstm(x, h, c, weights, cell_clip, output_clip)
