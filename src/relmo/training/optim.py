"""Optimizers and the learning rate's schedule: a linear warm-up, then a cosine decay.

Muon updates the weight matrices of LSTMs by an orthogonal matrix and all other weights as AdamW.
The gradient of such a matrix has few large directions; its momentum is replaced by the nearest
matrix whose singular values are all 1, so rare directions are learned as fast as common ones. See
Jordan et al. 2024, *Muon: an optimizer for hidden layers in neural networks*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from relmo.config import Fraction, NonNegative, Positive, Settings
from relmo.errors import ConfigError
from relmo.nn.bilm import LstmLayer

MOMENTUM = 0.95
STEP_SIZE = 0.2
"""Root mean square of Muon's update at rate 1, about that of AdamW: both share one rate."""
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial that pulls singular values towards 1: it is steep at 0 and flat at 1."""
ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class OptimSettings(Settings):
    """How weights are updated."""

    optimizer: Literal["adamw", "muon", "adagrad"] = "adamw"
    learning_rate: Positive = 1e-3
    bilm_rate: Positive = 1.0
    """Learning rate of a biLM that is fine-tuned with a task, relative to `learning_rate`."""
    warmup: Fraction = 0.02
    """Fraction of the run in which the rate rises from zero."""
    final: NonNegative = 0.02
    """The rate at the end, relative to the highest."""
    weight_decay: NonNegative = 0.0
    beta2: Fraction = 0.98
    clip_norm: NonNegative = 1.0
    """Bound on the norm of all gradients together; 0 means no bound."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer == "muon" and self.bilm_rate != 1:
            raise ConfigError("muon has one rate for all weights; leave bilm_rate at 1")


def make_optimizer(model: nn.Module, settings: OptimSettings) -> torch.optim.Optimizer:
    """The optimizer of all trained parameters; matrices decay, biases do not."""
    trained = trained_parameters(model)
    decays = {p: settings.weight_decay if p.ndim > 1 else 0.0 for p in trained}
    if settings.optimizer == "muon":
        blocks = blocks_of(model)
        kinds = {p: {"blocks": blocks.get(p, 0), "weight_decay": decays[p]} for p in trained}
        order = {p: tuple(kind.values()) for p, kind in kinds.items()}
    else:
        tuned = {p for name, p in model.named_parameters() if "bilm" in name.split(".")}
        shares = {p: settings.bilm_rate if p in tuned else 1.0 for p in trained}
        ranks = {share: rank for rank, share in enumerate(dict.fromkeys(shares.values()))}
        kinds = {p: {"weight_decay": decays[p], "share": shares[p]} for p in trained}
        order = {p: (p.ndim < 2, ranks[shares[p]]) for p in trained}
    groups: dict[tuple[float, ...], dict[str, Any]] = {}
    for p in sorted(trained, key=order.__getitem__):  # stable: shares do not change the order
        groups.setdefault(order[p], {"params": [], **kinds[p]})["params"].append(p)
    sets, rate = list(groups.values()), settings.learning_rate
    if settings.optimizer == "adagrad":
        return torch.optim.Adagrad(sets, rate, initial_accumulator_value=1.0)
    kind = Muon if settings.optimizer == "muon" else torch.optim.AdamW
    can_fuse = all(p.device.type in ("cpu", "cuda") for p in trained)  # one pass over all weights
    return kind(sets, rate, betas=(0.9, settings.beta2), fused=can_fuse)


def trained_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Parameters that require gradients; those of a biLM inside a task's model come last.

    Checkpoints store the optimizer's state by position in this order.
    """
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    return [p for _, p in sorted(named, key=lambda each: ".bilm." in each[0])]


def rate_at(progress: float, settings: OptimSettings) -> float:
    """The learning rate when this fraction of the run is completed."""
    if progress < settings.warmup:
        return settings.learning_rate * max(progress, 1e-3 * settings.warmup) / settings.warmup
    along = min(1.0, (progress - settings.warmup) / (1 - settings.warmup))
    down = settings.final + (1 - settings.final) * 0.5 * (1 + math.cos(math.pi * along))
    return settings.learning_rate * down


def set_rate(optimizer: torch.optim.Optimizer, progress: float, settings: OptimSettings) -> None:
    """Set the learning rate of all groups for this fraction of the run."""
    for group in optimizer.param_groups:
        group["lr"] = rate_at(progress, settings) * group.get("share", 1.0)


class Muon(torch.optim.AdamW):
    """AdamW, except for groups with `blocks` > 0: matrices are orthogonalized in so many parts."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # noqa: ANN401 - as in torch
        """Update the weights; torch's signature, without a closure."""
        assert closure is None, "the loss is computed once per step"
        for group in self.param_groups:
            if group["blocks"]:
                moved = [weight for weight in group["params"] if weight.grad is not None]
                for shape in {weight.shape for weight in moved}:
                    self._move([weight for weight in moved if weight.shape == shape], group)
        return super().step()

    def _move(self, weights: list[nn.Parameter], group: dict[str, Any]) -> None:
        """Update weights of one shape (m, n) together: few large products are fast."""
        ahead = torch.stack([self._look_ahead(weight) for weight in weights])  # (weights, m, n)
        _, m, n = ahead.shape
        parts = ahead.view(-1, m // group["blocks"], n)  # (weights x blocks, m / blocks, n)
        size = STEP_SIZE * max(parts.shape[1:]) ** 0.5
        changes = orthogonal(parts).reshape(ahead.shape).to(ahead.dtype)
        for weight, change in zip(weights, changes, strict=True):
            weight.mul_(1 - group["lr"] * group["weight_decay"])
            weight.add_(change, alpha=-group["lr"] * size)
            weight.grad = None  # so that AdamW, which comes next, skips it

    def _look_ahead(self, weight: nn.Parameter) -> Tensor:
        """Nesterov's momentum: the gradient, averaged once more with the updated momentum."""
        assert weight.grad is not None
        state = self.state[weight]
        if not state:
            state["step"], state["momentum"] = torch.zeros(()), torch.zeros_like(weight)
        state["step"] += 1
        momentum = state["momentum"].lerp_(weight.grad, 1 - MOMENTUM)
        ahead: Tensor = weight.grad.lerp(momentum, MOMENTUM)
        return ahead


def orthogonal(matrices: Tensor) -> Tensor:
    """Approximately the nearest (K, m, n) with singular values 1, by Newton-Schulz iteration."""
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
    """The matrices that Muon orthogonalizes and their number of parts: one for each gate."""
    found: dict[Tensor, int] = {}
    for layer in model.modules():
        if isinstance(layer, LstmLayer):
            found |= {layer.input_weight: 4, layer.recurrent_weight: 4}
            if layer.projection is not None:
                found[layer.projection] = 1
    return found
