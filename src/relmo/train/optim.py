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
    bilm_rate: float = 1.0
    """The rate of a biLM that is trained with a task's model, as a share of the learning rate."""
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
        if not self.bilm_rate > 0:
            raise ConfigError(f"bilm_rate is {self.bilm_rate}; it must be positive")
        if self.optimizer == "muon" and self.bilm_rate != 1:
            raise ConfigError("muon has one rate for all weights; leave bilm_rate at 1")
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
    shares = shares_of_rate(model, settings)
    groups = [
        {
            "params": [p for p in trained if (p.ndim > 1) == is_matrix and shares[p] == share],
            "weight_decay": settings.weight_decay if is_matrix else 0.0,
            "share": share,
        }
        for is_matrix in (True, False)  # in front: with any share the order of all weights is one
        for share in dict.fromkeys(shares.values())
    ]
    groups = [group for group in groups if group["params"]]
    if settings.optimizer == "adagrad":
        return torch.optim.Adagrad(groups, settings.learning_rate, initial_accumulator_value=1.0)
    return torch.optim.AdamW(groups, settings.learning_rate, betas=betas, fused=on_gpu)


def shares_of_rate(model: nn.Module, settings: OptimSettings) -> dict[nn.Parameter, float]:
    """The learning rate of each trained parameter, as a share of the settings'."""
    bilm = getattr(model, "bilm", None)
    tuned = set() if bilm is None else set(bilm.parameters())
    return {
        p: settings.bilm_rate if p in tuned else 1.0 for p in model.parameters() if p.requires_grad
    }


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
        group["lr"] = rate * group.get("share", 1.0)
