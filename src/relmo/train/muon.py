"""Muon: the weights of LSTMs move by an orthogonal matrix, all others as AdamW moves them.

A gradient of such a matrix is mostly a few directions; its momentum is replaced by the nearest
matrix whose directions all have the same length, so rare directions are learned as fast as common
ones. See Jordan et al. 2024, *Muon: an optimizer for hidden layers in neural networks*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from relmo.nn.bilm import LstmLayer

MOMENTUM = 0.95
STEP_SIZE = 0.2
"""Root mean square of a change at rate 1: about what AdamW's is, so that both share one rate."""
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial that pulls singular values towards 1: it is steep at 0 and flat at 1."""
ROUNDS = 5


class Muon(torch.optim.AdamW):
    """AdamW, but groups with `blocks` above 0 move orthogonally, each matrix in that many parts."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # noqa: ANN401 - as in torch
        """Change the weights by their gradients; torch's signature, but no closure."""
        assert closure is None, "a loss is computed once per step"
        for group in self.param_groups:
            if group["blocks"]:
                moved = [weight for weight in group["params"] if weight.grad is not None]
                for shape in {weight.shape for weight in moved}:
                    self._move([weight for weight in moved if weight.shape == shape], group)
        return super().step()

    def _move(self, weights: list[nn.Parameter], group: dict[str, Any]) -> None:
        """Change weights of one shape, (m, n) each, together: few large products are fast."""
        ahead = torch.stack([self._look_ahead(weight) for weight in weights])  # (weights, m, n)
        _, m, n = ahead.shape
        parts = ahead.view(-1, m // group["blocks"], n)  # (weights x blocks, m / blocks, n)
        size = STEP_SIZE * max(parts.shape[1:]) ** 0.5
        changes = orthogonal(parts).reshape(ahead.shape).to(ahead.dtype)
        for weight, change in zip(weights, changes, strict=True):
            weight.mul_(1 - group["lr"] * group["weight_decay"])
            weight.add_(change, alpha=-group["lr"] * size)
            weight.grad = None  # AdamW, which comes next, leaves it alone

    def _look_ahead(self, weight: nn.Parameter) -> Tensor:
        """The gradient, mixed into the momentum once more than the momentum has it (Nesterov)."""
        assert weight.grad is not None
        state = self.state[weight]
        if not state:
            state["step"], state["momentum"] = torch.zeros(()), torch.zeros_like(weight)
        state["step"] += 1
        momentum = state["momentum"].lerp_(weight.grad, 1 - MOMENTUM)
        ahead: Tensor = weight.grad.lerp(momentum, MOMENTUM)
        return ahead


def orthogonal(matrices: Tensor) -> Tensor:
    """About the nearest (K, m, n) with singular values of 1, by a Newton-Schulz iteration."""
    is_tall = matrices.shape[1] > matrices.shape[2]
    x: Tensor = matrices.mT if is_tall else matrices  # (K, small, large)
    x = x.bfloat16() if x.is_cuda else x
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(ROUNDS):
        square = x @ x.mT  # (K, small, small)
        inner = torch.baddbmm(square, square, square, beta=b, alpha=c)
        x = torch.baddbmm(x, inner, x, beta=a)  # a x + (b square + c square²) x
    return x.mT if is_tall else x


def blocks_of(model: nn.Module) -> dict[Tensor, int]:
    """The matrices that move orthogonally, with the number of parts: four gates are four parts."""
    found: dict[Tensor, int] = {}
    for layer in model.modules():
        if isinstance(layer, LstmLayer):
            found |= {layer.input_weight: 4, layer.recurrent_weight: 4}
            if layer.projection is not None:
                found[layer.projection] = 1
    return found


def muon_groups(
    model: nn.Module, trained: Iterable[nn.Parameter], decay: float
) -> list[dict[str, Any]]:
    """Groups of parameters by how they move; matrices decay, biases do not."""
    blocks = blocks_of(model)
    groups: dict[tuple[int, float], list[nn.Parameter]] = {}
    for weight in trained:
        key = blocks.get(weight, 0), decay if weight.ndim > 1 else 0.0
        groups.setdefault(key, []).append(weight)
    return [
        {"params": params, "blocks": number, "weight_decay": its_decay}
        for (number, its_decay), params in sorted(groups.items(), key=lambda item: item[0])
    ]
