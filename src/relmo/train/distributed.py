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
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        device = f"cuda:{local}"
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    if size > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    return World(rank, size, torch.device(device))


def is_main_process() -> bool:
    """Whether this process speaks for the run: the first that torchrun started, or the only one."""
    return os.environ.get("RANK", "0") == "0"


def average_gradients(model: nn.Module, world: World) -> None:
    """Give every process the mean of all processes' gradients."""
    if world.size == 1:
        return
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= world.size


def mean_over(values: torch.Tensor, world: World) -> torch.Tensor:
    """The mean of all processes' values; theirs stay as they are."""
    if world.size == 1:
        return values
    values = values.clone()
    dist.all_reduce(values)
    return values / world.size


def as_main_says(value: float, world: World) -> float:
    """The main process's value, for all: clocks differ, decisions may not."""
    if world.size == 1:
        return value
    shared = torch.tensor(value, dtype=torch.float64, device=world.device)
    dist.broadcast(shared, 0)
    return float(shared)


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
