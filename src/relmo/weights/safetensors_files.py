"""One safetensors file: written atomically, read with every oddity named."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from relmo.errors import ConfigError, WeightError
from relmo.files import replacing
from relmo.weights import int8
from relmo.weights.tensors import Storage

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
FIXED_BYTES = 64
"""Of a file's header, at most, besides its tensors' entries."""
ENTRY_BYTES = 100
"""Of a tensor's entry in the header, at most, besides its name."""


def check_storage(storage: str) -> None:
    """Raise ConfigError unless weights can be stored so."""
    if storage not in get_args(Storage):
        known = ", ".join(get_args(Storage))
        raise ConfigError(f"storage {storage!r} is not known; choose one of {known}")


def pack(tensors: dict[str, Tensor], storage: Storage) -> dict[str, Tensor]:
    """Tensors as files hold them."""
    return int8.pack(tensors) if storage == "int8" else tensors


def bytes_in_file(tensors: Mapping[str, Tensor]) -> int:
    """Bytes that tensors take in a file at most, FIXED_BYTES apart."""
    return sum(tensor.nbytes + len(name) + ENTRY_BYTES for name, tensor in tensors.items())


def shard_names(stem: str, count: int) -> list[str]:
    """Names of the shards of `stem`, as the Hugging Face libraries count them."""
    return [f"{stem}-{i:05}-of-{count:05}.safetensors" for i in range(1, count + 1)]


def save_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write a file, whole or not at all."""
    with replacing(path) as temporary:
        contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
        try:
            save_file(contiguous, temporary, metadata={"format": "pt"})
            temporary.chmod(0o666 & ~_umask())  # safetensors makes files for their owner alone
        except SafetensorError as error:  # how safetensors reports a full disk
            raise OSError(str(error)) from error


def tensor_names(path: Path) -> list[str]:
    """Names inside one file."""
    with _opened(path) as file:
        return list(file.keys())


def read_tensors(path: Path, names: list[str], storage: Storage) -> dict[str, Tensor]:
    """The named tensors of one file, float32; 8-bit ones are multiplied by their scales."""
    with _opened(path) as file:
        missing = set(names) - set(file.keys())
        if missing:
            raise WeightError(f"{path}: lacks {min(missing)!r}, which the index places there")
        found = {name: file.get_tensor(name) for name in names}
    for name, tensor in found.items():
        if tensor.dtype not in FLOATS and not (storage == "int8" and tensor.dtype == torch.int8):
            raise WeightError(f"{path}: {name!r} holds {tensor.dtype}, float32 is needed")
    if storage == "int8":
        return int8.unpack(found, path)
    return {name: tensor.to(torch.float32) for name, tensor in found.items()}


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _opened(path: Path) -> Any:  # noqa: ANN401 - safetensors has no type for it
    with path.open("rb") as file:
        start = file.read(9)
    is_safe = start[8:] == b"{"  # after a header's length, which may look like a pickle's start
    if start.startswith(PICKLE_STARTS) and not is_safe:
        raise WeightError(
            f"{path}: is a pickle (torch.save), which can run code and is never loaded here; "
            f"write the tensors with safetensors.torch.save_file instead"
        )
    try:
        return safe_open(path, framework="pt")
    except SafetensorError as error:
        raise WeightError(
            f"{path}: is not a complete safetensors file ({error}); copy or download it again"
        ) from error
