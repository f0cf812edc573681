"""A model from one layout into another, tensor by tensor, no number changed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from relmo.errors import ConfigError
from relmo.weights.find import find_model
from relmo.weights.layouts import by_name, detect
from relmo.weights.native import Native


@dataclass(frozen=True, slots=True)
class ConvertReport:
    """What was converted."""

    source: str
    target: str
    source_format: str
    target_format: str
    tensors: int
    parameters: int
    lost: tuple[str, ...]
    """What the target format cannot hold, in words."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


def convert_model(
    source: str | Path, target: Path, to: str, shard_mb: int | None = None
) -> ConvertReport:
    """Read the model at `source` and write it to the folder `target` in the format `to`."""
    writer = by_name(to)
    if shard_mb is not None and not (isinstance(writer, Native) and shard_mb > 0):
        raise ConfigError(f"shards of {shard_mb} MB: only the native format has shards, of 1 MB up")
    folder = find_model(source)
    reader = detect(folder)
    if target.resolve() == folder.resolve():
        raise ConfigError(f"{target}: source and target are the same folder; choose another target")
    model = reader.read(folder)
    if isinstance(writer, Native):
        writer.write(target, model, None if shard_mb is None else shard_mb * 10**6)
    else:
        writer.write(target, model)
    lost = []
    if to != "native" and model.config.start == "stored":
        lost.append(f"the {to} format holds no start state: the copy starts sentences from zero")
    return ConvertReport(
        source=str(folder),
        target=str(target),
        source_format=reader.name,
        target_format=to,
        tensors=len(model.tensors),
        parameters=sum(tensor.numel() for tensor in model.tensors.values()),
        lost=tuple(lost),
    )
