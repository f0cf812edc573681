"""One process, or several started by torchrun, behind the same few calls."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor, nn

from relmo.kernels.device import usable_device


@dataclass(frozen=True)
class World:
    """The processes that take part in a run; every one of them must make each call below."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def is_main(self) -> bool:
        """Whether this process logs, evaluates and saves."""
        return self.rank == 0

    def average_gradients(self, model: nn.Module) -> None:
        """Give every process the mean of all processes' gradients."""
        if self.size == 1:
            return
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= self.size

    def mean(self, values: Tensor) -> Tensor:
        """The mean of all processes' values, which are not changed."""
        if self.size == 1:
            return values
        values = values.clone()
        dist.all_reduce(values)
        return values / self.size

    def from_main(self, value: float) -> float:
        """The main process's value: clocks differ, decisions must not."""
        if self.size == 1:
            return value
        shared = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.broadcast(shared, 0)
        return float(shared)

    def gather(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Every process's carried state, rank after rank along dimension 1 (the rows)."""
        if self.size == 1:
            return state
        gathered = {}
        for name, tensor in state.items():
            parts = [torch.empty_like(tensor) for _ in range(self.size)]
            dist.all_gather(parts, tensor.contiguous())
            gathered[name] = torch.cat(parts, 1)
        return gathered

    def share(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """This process's rows of a gathered state."""
        return {name: tensor.chunk(self.size, 1)[self.rank] for name, tensor in state.items()}

    def wait(self) -> None:
        """Wait until every process has arrived here."""
        if self.size > 1:
            dist.barrier()


def join_world(device: str | None = None) -> World:
    """Join the processes that torchrun started, if it did."""
    size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda":
        device = f"cuda:{int(os.environ.get('LOCAL_RANK', '0'))}"
    where = usable_device(device)
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    if size > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    return World(rank, size, where)


def is_main_process() -> bool:
    """Whether this is the first process that torchrun started, or the only one."""
    return os.environ.get("RANK", "0") == "0"
