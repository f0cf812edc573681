"""Between host and device, without waiting for work that is under way there."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.kernels.side_by_side import pool_of

Result = TypeVar("Result")
MOST_THREADS = 8


def onto(values: NDArray[np.generic] | Tensor, device: torch.device) -> Tensor:
    """The same values on the device; on a GPU they arrive before work that is started later."""
    tensor = values if isinstance(values, Tensor) else torch.from_numpy(values)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def from_device(values: Tensor) -> Callable[[], NDArray[np.generic]]:
    """Start to bring values to the host; what is given back waits until they are there."""
    if not values.is_cuda:
        return values.numpy
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    host.copy_(values, non_blocking=True)
    arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()

    def wait() -> NDArray[np.generic]:
        arrived.synchronize()
        return host.numpy()

    return wait


def in_threads(work: Callable[[range], list[Result]], count: int) -> list[Result]:
    """What `work` gives for range(count), in order; parts of it are done side by side."""
    threads = min(MOST_THREADS, os.cpu_count() or 1, max(1, count))
    ends = [count * i // threads for i in range(threads + 1)]
    parts = pool_of(MOST_THREADS).map(work, map(range, ends[:-1], ends[1:]))
    return [result for part in parts for result in part]
