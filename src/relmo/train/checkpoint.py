"""Checkpoints, from which a run continues exactly where it stopped.

    checkpoint/step-000001200/tensors.safetensors    weights, optimizer, carried state
    checkpoint/step-000001200/state.json             step, seconds, size of the other file

A checkpoint is written under another name and renamed when it is complete; only then are older
ones deleted. So the last complete one survives a crash at any moment, and a full disk.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from relmo.errors import WeightError
from relmo.files import replacing_folder
from relmo.weights.safetensors_files import write_tensors
from relmo.weights.tensors import check_names, check_shape

KEEP = 2
"""Checkpoints kept."""
ADVICE = "free some space, then resume from the previous checkpoint, which is complete"
OTHER_MODEL = "the checkpoint is of another model or recipe: resume with the one it started with"


@dataclass(frozen=True)
class Best:
    """The best scores, the step they were reached at, and the number of evaluations since."""

    step: int = -1
    scores: dict[str, float] = field(default_factory=dict)
    waited: int = 0

    def is_beaten_by(self, scores: Mapping[str, float], name: str) -> bool:
        """Whether the named score is higher; NaN never is."""
        return scores.get(name, float("-inf")) > self.scores.get(name, float("-inf"))


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

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
    """Write a checkpoint, then delete all but the last KEEP."""
    states = {
        f"{index}.{name}": value
        for index, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
    }
    is_tensor = {name: isinstance(value, Tensor) for name, value in states.items()}
    tensors = {f"optimizer.{name}": value for name, value in states.items() if is_tensor[name]}
    tensors |= {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"carried.{name}": tensor for name, tensor in carried.items()}
    with replacing_folder(folder / f"step-{progress.step:09d}", ADVICE) as place:
        write_tensors(place / "tensors.safetensors", tensors)
        state = {
            **asdict(progress),
            "kind": type(optimizer).__name__,
            "optimizer": {name: value for name, value in states.items() if not is_tensor[name]},
            "bytes": (place / "tensors.safetensors").stat().st_size,
        }
        (place / "state.json").write_text(json.dumps(state), encoding="utf-8")
    for old in [*find_checkpoints(folder)[:-KEEP], *folder.glob("step-*.tmp")]:
        shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[Progress, dict[str, Tensor]] | None:
    """Load the last complete checkpoint; None if there is none."""
    for place in reversed(find_checkpoints(folder)):
        try:
            state = json.loads((place / "state.json").read_text(encoding="utf-8"))
            if (place / "tensors.safetensors").stat().st_size != state["bytes"]:
                continue
            tensors = load_file(place / "tensors.safetensors")
        except (OSError, ValueError, KeyError, TypeError, SafetensorError):
            continue  # incomplete: take the one before
        load_weights(model, _part(tensors, "model."), place, OTHER_MODEL)
        kind = type(optimizer).__name__
        if state.get("kind", kind) != kind:
            raise WeightError(f"{place}: was made with {state['kind']}, not {kind}; {OTHER_MODEL}")
        _restore_optimizer(optimizer, _part(tensors, "optimizer."), state["optimizer"])
        best = Best(**state.get("best", {}))
        return Progress(state["step"], state["seconds"], best), _part(tensors, "carried.")
    return None


def load_weights(model: nn.Module, found: dict[str, Tensor], where: Path, hint: str) -> None:
    """Load weights into a model; WeightError names the tensor that does not belong to it."""
    wanted = model.state_dict()
    check_names(set(found), set(wanted), where, hint)
    for name, tensor in wanted.items():
        check_shape(where, name, found[name].shape, tensor.shape, hint)
    model.load_state_dict(found, strict=True)


def find_checkpoints(folder: Path) -> list[Path]:
    """The folders of the checkpoints, oldest first."""
    return sorted(p for p in folder.glob("step-*") if p.is_dir() and p.suffix != ".tmp")


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _restore_optimizer(
    optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], numbers: dict[str, Any]
) -> None:
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **numbers}.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    weights = [p for group in optimizer.param_groups for p in group["params"]]
    for place, values in state.items():
        shapes = {v.shape for v in values.values() if isinstance(v, Tensor) and v.ndim}
        if place >= len(weights) or not shapes <= {weights[place].shape}:
            what = "the checkpoint belongs to an optimizer of other weights"
            raise WeightError(f"{what}; start again")
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
