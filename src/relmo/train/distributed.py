"""One process, or several under torchrun, behind the same few calls."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn


@dataclass(frozen=True)
class World:
    """Who takes part in a run."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def is_main(self) -> bool:
        """Whether this process logs, evaluates and saves."""
        return self.rank == 0


def join_world(device: str | None = None) -> World:
    """Join the processes that torchrun started, or be alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if device is None:
        device = f"cuda:{local}" if torch.cuda.is_available() else "cpu"
    if size > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    return World(rank, size, torch.device(device))


def average_gradients(model: nn.Module, world: World) -> None:
    """Give every process the mean of all processes' gradients."""
    if world.size == 1:
        return
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= world.size


def gather_state(state: dict[str, torch.Tensor], world: World) -> dict[str, torch.Tensor]:
    """Every process's carried state, rank after rank along dimension 1 (the rows)."""
    if world.size == 1:
        return state
    gathered = {}
    for name, tensor in state.items():
        parts = [torch.empty_like(tensor) for _ in range(world.size)]
        dist.all_gather(parts, tensor.contiguous())
        gathered[name] = torch.cat(parts, 1)
    return gathered


def share_of(state: dict[str, torch.Tensor], world: World) -> dict[str, torch.Tensor]:
    """This process's rows of a gathered state."""
    return {name: tensor.chunk(world.size, 1)[world.rank] for name, tensor in state.items()}


def wait(world: World) -> None:
    """Let every process arrive here before any goes on."""
    if world.size > 1:
        dist.barrier()
