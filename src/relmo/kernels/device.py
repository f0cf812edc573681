"""Which kernel runs on a device, and copies between host and device that wait for nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.errors import ConfigError

Others = ParamSpec("Others")
Result = TypeVar("Result")
OVERRIDE = "RELMO_KERNELS"
"""Environment variable: "reference" switches every faster kernel off."""


def uses_fast_kernels() -> bool:
    """Whether anything but the reference may run."""
    return os.environ.get(OVERRIDE) != "reference"


def usable_device(name: str | torch.device) -> torch.device:
    """The device of this name; ConfigError unless a tensor can be placed there."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (AssertionError, ImportError, NotImplementedError, RuntimeError, TypeError) as error:
        found = available_devices()
        asks_for_gpu = str(name).startswith("cuda") and len(found) == 1
        hint = "; a GPU needs its driver (nvidia-smi) and a torch built with CUDA"
        name_hint = "; the name of an NVIDIA GPU is 'cuda'" if str(name).startswith("gpu") else ""
        raise ConfigError(
            f"device {str(name)!r} is not available; torch finds {', '.join(found)} on this "
            f"machine{name_hint or (hint if asks_for_gpu else '')}"
        ) from error
    return device


def available_devices() -> list[str]:
    """Names of the devices of this machine that torch can use."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return ["cpu", *(f"cuda:{number}" for number in range(gpus)), *mps]


def has_triton(device: torch.device) -> bool:
    """Whether Triton kernels run there."""
    return device.type == "cuda" and uses_fast_kernels() and find_spec("triton") is not None


def on_its_device(
    kernel: Callable[Concatenate[Tensor, Others], Result],
) -> Callable[Concatenate[Tensor, Others], Result]:
    """Run a function on the device of its first tensor; Triton starts kernels on the current one.

    What autograd runs later is on the right device without it.
    """

    @wraps(kernel)
    def run(x: Tensor, /, *others: Others.args, **named: Others.kwargs) -> Result:
        with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
            return kernel(x, *others, **named)

    return run


def to_device(values: NDArray[np.generic] | Tensor, device: torch.device) -> Tensor:
    """The same values on the device; on a GPU they arrive before work that is started later."""
    tensor = values if isinstance(values, Tensor) else torch.from_numpy(values)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def begin_host_copy(values: Tensor) -> Callable[[], NDArray[np.generic]]:
    """Start to copy values to the host; the function returned waits until they are there."""
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
