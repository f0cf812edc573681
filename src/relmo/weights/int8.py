"""Eight bits per weight on disk: NAME int8 and NAME.scale float32, one per output row.

Matrices are stored so, vectors (biases, states) as they are. A row's scale maps its largest value
to 127: what is lost is at most half a step of that row.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from relmo.errors import WeightError
from relmo.kernels.cpu_products import to_int8

SCALE = ".scale"


def pack(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Float tensors -> what the file holds."""
    packed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.ndim < 2 or name.startswith("start_state."):
            packed[name] = tensor
            continue
        whole, scale = to_int8(tensor.flatten(1))  # (rows, rest), (rows,)
        packed[name], packed[name + SCALE] = whole.view(tensor.shape), scale
    return packed


def unpack(packed: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """What the file holds -> float tensors."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in packed.items():
        if name.endswith(SCALE):
            continue
        if tensor.dtype != torch.int8:
            tensors[name] = tensor.to(torch.float32)
            continue
        if name + SCALE not in packed:
            raise WeightError(f"{path}: {name!r} has no {name + SCALE!r} beside it; copy it again")
        scale = packed[name + SCALE]  # (rows,)
        if scale.shape != tensor.shape[:1]:
            raise WeightError(
                f"{path}: {name + SCALE!r} is {tuple(scale.shape)}, {name!r} has "
                f"{tensor.shape[0]} rows; copy it again"
            )
        scale = scale.view(-1, *[1] * (tensor.ndim - 1))  # (rows, 1, …)
        tensors[name] = tensor.to(torch.float32).mul_(scale)
    return tensors
