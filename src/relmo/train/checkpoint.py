"""A run on disk, so that it can go on exactly where it stopped.

    checkpoint/step-000001200/tensors.safetensors    weights, optimiser, carried state
    checkpoint/step-000001200/state.json             step, seconds, size of the tensors' file

A checkpoint is written beside its place and renamed into it when it is whole; only then is an
older one deleted. So the last good one survives a crash at any moment and a full disk.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from relmo.errors import WeightError
from relmo.files import replacing_folder
from relmo.train.best import Best
from relmo.weights.tensors import check_names, check_shape

KEEP = 2
"""Checkpoints kept."""
ADVICE = "free some space; the checkpoint before this one is whole: resume from it"
HINT = "it is of another model or recipe: resume with the one it began with"


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    step: int = 0
    seconds: float = 0.0
    best: Best = field(default_factory=Best)


def save_checkpoint(
    folder: Path,
    progress: Progress,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    carried: dict[str, Tensor],
) -> None:
    """Write a checkpoint, then drop all but the last KEEP."""
    tensors, numbers = _flatten_optimizer(optimizer)
    tensors |= {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"carried.{name}": tensor for name, tensor in carried.items()}
    state = {
        "step": progress.step,
        "seconds": progress.seconds,
        "best": asdict(progress.best),
        "kind": type(optimizer).__name__,
        "optimizer": numbers,
    }
    with replacing_folder(folder / f"step-{progress.step:09d}", ADVICE) as place:
        _write(place, tensors, state)
    for old in [*_checkpoints(folder)[:-KEEP], *folder.glob("step-*.tmp")]:
        shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[Progress, dict[str, Tensor]] | None:
    """Take up the last whole checkpoint; None where there is none."""
    for place in reversed(_checkpoints(folder)):
        found = _read(place)
        if found is None:
            continue
        tensors, state = found
        weights = _part(tensors, "model.")
        _check_model(place, weights, model.state_dict())
        model.load_state_dict(weights, strict=True)
        kind = type(optimizer).__name__
        if state.get("kind", kind) != kind:
            raise WeightError(f"{place}: was made with {state['kind']}, not {kind}; {HINT}")
        _restore_optimizer(optimizer, _part(tensors, "optimizer."), state["optimizer"])
        best = Best(**state.get("best", {}))
        return Progress(state["step"], state["seconds"], best), _part(tensors, "carried.")
    return None


def has_checkpoint(folder: Path) -> bool:
    """Whether a run has left something there to go on from."""
    return bool(_checkpoints(folder))


def _write(folder: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    path = folder / "tensors.safetensors"
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(whole, path)
    except SafetensorError as error:  # how safetensors reports a full disk
        raise OSError(str(error)) from error
    state["bytes"] = path.stat().st_size
    (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")


def _read(place: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Tensors and state of a checkpoint, or None if it is not whole."""
    try:
        state = json.loads((place / "state.json").read_text(encoding="utf-8"))
        if (place / "tensors.safetensors").stat().st_size != state["bytes"]:
            return None
        return load_file(place / "tensors.safetensors"), state
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):
        return None


def _check_model(place: Path, found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    """Raise WeightError unless the weights are those of this model."""
    check_names(set(found), set(wanted), place, HINT)
    for name, tensor in wanted.items():
        check_shape(place, name, tuple(found[name].shape), tuple(tensor.shape), HINT)


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("step-*") if p.is_dir() and p.suffix != ".tmp")


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _flatten_optimizer(
    optimizer: torch.optim.Optimizer,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The optimiser's tensors by name, and what else its state holds."""
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, Any] = {}
    for index, values in optimizer.state_dict()["state"].items():
        for name, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{index}.{name}"] = value
            else:
                numbers[f"{index}.{name}"] = value
    return tensors, numbers


def _restore_optimizer(
    optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], numbers: dict[str, Any]
) -> None:
    current = optimizer.state_dict()
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **numbers}.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    weights = [p for group in optimizer.param_groups for p in group["params"]]
    for place, values in state.items():
        shapes = {tuple(v.shape) for v in values.values() if isinstance(v, Tensor) and v.ndim}
        if place >= len(weights) or not shapes <= {tuple(weights[place].shape)}:
            raise WeightError("the checkpoint is of an optimizer with other weights; begin anew")
    optimizer.load_state_dict({"state": state, "param_groups": current["param_groups"]})
