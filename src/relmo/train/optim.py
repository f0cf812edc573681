"""Optimisers and the learning rate's way: up in a line, then down a cosine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from relmo.errors import ConfigError
from relmo.train.muon import Muon, muon_groups


@dataclass(frozen=True, kw_only=True)
class OptimSettings:
    """How weights are changed."""

    optimizer: Literal["adamw", "muon", "adagrad"] = "adamw"
    learning_rate: float = 1e-3
    warmup: float = 0.02
    """Share of the run in which the rate rises from zero."""
    final: float = 0.02
    """The rate at the end, as a share of the highest."""
    weight_decay: float = 0.0
    beta2: float = 0.98
    clip_norm: float = 1.0
    """Bound on the norm of all gradients together; 0 leaves it free."""

    def __post_init__(self) -> None:
        if self.optimizer not in ("adamw", "muon", "adagrad"):
            raise ConfigError(f"optimizer is {self.optimizer!r}; choose adamw, muon or adagrad")
        if not self.learning_rate > 0:
            raise ConfigError(f"learning_rate is {self.learning_rate}; it must be positive")
        for name in ("warmup", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it lies from 0 to below 1")
        for name in ("final", "weight_decay", "clip_norm"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it cannot be negative")


def make_optimizer(model: nn.Module, settings: OptimSettings) -> torch.optim.Optimizer:
    """The optimiser of all parameters that are trained; matrices decay, biases do not."""
    trained = [p for p in model.parameters() if p.requires_grad]
    on_gpu = all(p.is_cuda for p in trained)
    betas = 0.9, settings.beta2
    if settings.optimizer == "muon":
        groups = muon_groups(model, trained, settings.weight_decay)
        return Muon(groups, settings.learning_rate, betas=betas, fused=on_gpu)
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if settings.optimizer == "adagrad":
        return torch.optim.Adagrad(groups, settings.learning_rate, initial_accumulator_value=1.0)
    return torch.optim.AdamW(groups, settings.learning_rate, betas=betas, fused=on_gpu)


def rate_at(progress: float, settings: OptimSettings) -> float:
    """The learning rate when that share of the run, 0 to 1, is done."""
    if progress < settings.warmup:
        return settings.learning_rate * max(progress, 1e-3 * settings.warmup) / settings.warmup
    along = min(1.0, (progress - settings.warmup) / (1 - settings.warmup))
    down = settings.final + (1 - settings.final) * 0.5 * (1 + math.cos(math.pi * along))
    return settings.learning_rate * down


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Use this learning rate from now on."""
    for group in optimizer.param_groups:
        group["lr"] = rate
