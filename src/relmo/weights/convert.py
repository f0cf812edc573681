"""Convert a model from one layout to another; only 8-bit storage changes values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from relmo.errors import ConfigError
from relmo.weights.find import FORMATS, UNTRAINED, find_model, read_model
from relmo.weights.safetensors_files import check_storage
from relmo.weights.tensors import Storage

ROUNDED = "8-bit storage rounds the weights: vectors change slightly, files shrink to a quarter"


@dataclass(frozen=True, slots=True)
class ConvertReport:
    """What was converted."""

    source: str
    target: str
    target_format: str
    tensors: int
    parameters: int
    lost: tuple[str, ...]
    """What the target does not contain, in words."""


def convert_model(
    source: str | Path,
    target: Path,
    to: str,
    shard_mb: int | None = None,
    storage: Storage = "float32",
) -> ConvertReport:
    """Read the model at `source` and write it to the folder `target` in the format `to`.

    Args:
        source: Folder or name of a model, in any known layout.
        target: Folder to write.
        to: "native" or "hdf5".
        shard_mb: Native only: maximum size of a weight file in megabytes.
        storage: Native only: "int8" rounds matrices to 8 bits per row.
    """
    if to not in FORMATS:
        raise ConfigError(f"unknown format {to!r}; choose one of {', '.join(FORMATS)}")
    writer = FORMATS[to]
    check_storage(storage)
    if shard_mb is not None and shard_mb < 1:
        raise ConfigError(f"shard_mb must be an integer ≥ 1, got {shard_mb}")
    if source != UNTRAINED and target.resolve() == find_model(source).resolve():
        raise ConfigError(f"{target}: source and target are the same folder; choose another target")
    for other in FORMATS.values():
        if other is not writer and other.detect(target):
            raise ConfigError(
                f"{target} contains a model in the {other.name} format; choose another target"
            )
    model = read_model(source)
    writer.write(target, model, None if shard_mb is None else shard_mb * 10**6, storage)
    rounded = [ROUNDED] if storage == "int8" else []
    return ConvertReport(
        source=str(source),
        target=str(target),
        target_format=to,
        tensors=len(model.tensors),
        parameters=sum(tensor.numel() for tensor in model.tensors.values()),
        lost=(*writer.lost(model), *rounded),
    )
