"""Checkpoints, from which a run continues exactly where it stopped.

    checkpoint/step-000001200/tensors.safetensors    weights, optimizer, carried state
    checkpoint/step-000001200/state.json             step, seconds, checksum of the other file

A checkpoint is written under another name and renamed when it is complete; only then are older
ones deleted. So the last complete one survives a crash at any moment, and a full disk. If the last
one is damaged, the one before it is loaded.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from relmo.config import CountOrZero, Range, Settings
from relmo.errors import WeightError
from relmo.files import SEAL, checksum, open_regular, read_json, replacing_folder, sha256
from relmo.weights.safetensors_files import write_tensors
from relmo.weights.tensors import check_names, check_shape

TENSORS = "tensors.safetensors"
CHECKPOINT = re.compile(r"step-\d{9,18}", re.ASCII)
UNFINISHED = re.compile(r"step-\d{9,18}\.tmp", re.ASCII)
"""As earlier releases named a checkpoint that they were writing."""
OPTIMIZER_KEY = re.compile(r"\d{1,9}\..+", re.ASCII)
KEEP = 2
"""Checkpoints kept."""
ADVICE = "free some space, then resume from the previous checkpoint, which is complete"
OTHER_MODEL = "the checkpoint is of another model or recipe: resume with the one it started with"


Step = Annotated[int, Range(least=-1, most=10**15)]
Seconds = Annotated[float, Range(least=0, most=1e12)]


@dataclass(frozen=True)
class Best(Settings):
    """The best scores, the step they were reached at, and the number of evaluations since."""

    step: Step = -1
    scores: dict[str, float] = field(default_factory=dict)
    waited: CountOrZero = 0

    def is_beaten_by(self, scores: Mapping[str, float], name: str) -> bool:
        """Whether the named score is higher; NaN never is."""
        return scores.get(name, float("-inf")) > self.scores.get(name, float("-inf"))


@dataclass(frozen=True)
class Progress(Settings):
    """How far a run has come."""

    step: Step = 0
    seconds: Seconds = 0.0
    best: Best = field(default_factory=Best)
    is_pending: bool = False
    """Whether the evaluation after this step was interrupted, and is to be made."""


@dataclass(frozen=True)
class Snapshot:
    """A copy of all that a checkpoint holds, in the host's memory."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]

    @property
    def step(self) -> int:
        """The number of steps that were completed."""
        return int(self.state["step"])

    def write(self, folder: Path) -> None:
        """Write a checkpoint, then delete all but the last KEEP."""
        name = step_name(self.step)
        with replacing_folder(folder / name, ADVICE) as place:
            path = place / TENSORS
            write_tensors(path, self.tensors)
            state = {**self.state, "bytes": path.stat().st_size, "sha256": sha256(path)}
            text = json.dumps({**state, SEAL: checksum(state)})
            (place / "state.json").write_text(text, encoding="utf-8")
        found = find_checkpoints(folder)
        kept = [place for place in found if place.name <= name][-KEEP:]
        # Later ones are damaged, or this run would have gone on from them.
        unfinished = _own_folders(folder, UNFINISHED)
        for old in [*(place for place in found if place not in kept), *unfinished]:
            shutil.rmtree(old, ignore_errors=True)


def take_snapshot(
    progress: Progress,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    carried: dict[str, Tensor],
) -> Snapshot:
    """Copy a run's state, so that training can go on while it is written."""
    states = {
        f"{index}.{name}": value
        for index, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
    }
    is_tensor = {name: isinstance(value, Tensor) for name, value in states.items()}
    tensors = {f"optimizer.{name}": value for name, value in states.items() if is_tensor[name]}
    tensors |= {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"carried.{name}": tensor for name, tensor in carried.items()}
    numbers = {name: value for name, value in states.items() if not is_tensor[name]}
    return Snapshot(
        {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()},
        {**asdict(progress), "kind": type(optimizer).__name__, "optimizer": numbers},
    )


class CheckpointWriter:
    """Writes checkpoints in a thread of its own; an error there is raised by the next call."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._thread = ThreadPoolExecutor(1, "relmo-checkpoint")
        self._pending: Future[None] | None = None

    def write(self, snapshot: Snapshot) -> None:
        """Begin to write; if the one before is not yet written, wait for it."""
        self.wait()
        self._pending = self._thread.submit(snapshot.write, self.folder)

    def wait(self) -> None:
        """Wait until all is written."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.result()

    def close(self) -> None:
        """Wait, and end the thread; errors are not raised."""
        self._thread.shutdown()
        self._pending = None


def save_checkpoint(
    folder: Path,
    progress: Progress,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    carried: dict[str, Tensor],
) -> None:
    """Write a checkpoint and wait for it."""
    take_snapshot(progress, model, optimizer, carried).write(folder)


def load_checkpoint(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[Progress, dict[str, Tensor]] | None:
    """Load the last checkpoint that is undamaged; None if there is none.

    A damaged one is passed over with a warning; if all are, that is a WeightError.
    """
    places, damaged = find_checkpoints(folder), []
    for place in reversed(places):
        try:
            state, tensors = _read(place)
            progress, numbers = _progress(state), _numbers(state)
        except (OSError, ValueError, LookupError, TypeError, SafetensorError) as error:
            damaged.append(f"{place}: damaged ({error or type(error).__name__})")
            continue
        if damaged:
            warnings.warn(f"{'; '.join(damaged)}; resuming from {place} instead", stacklevel=2)
        load_weights(model, _part(tensors, "model."), place, OTHER_MODEL)
        kind = type(optimizer).__name__
        if state.get("kind", kind) != kind:
            raise WeightError(f"{place}: was made with {state['kind']}, not {kind}; {OTHER_MODEL}")
        _restore_optimizer(optimizer, _part(tensors, "optimizer."), numbers)
        return progress, _part(tensors, "carried.")
    if damaged:
        raise WeightError(f"{'; '.join(damaged)}; there is no other checkpoint: start again")
    return None


def _read(place: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The content of a checkpoint, verified; one of an earlier version may have no checksum."""
    state = read_json(place / "state.json")
    path, seal = place / TENSORS, state.pop(SEAL, None)
    if seal is not None and seal != checksum(state):
        raise ValueError("the checksum of state.json does not match")
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
    if size != state["bytes"]:
        raise ValueError(f"{TENSORS} has {size} bytes, not {state['bytes']}")
    if "sha256" in state and sha256(path) != state["sha256"]:
        raise ValueError(f"the checksum of {TENSORS} does not match")
    return state, load_file(path)


def _progress(state: dict[str, Any]) -> Progress:
    best, is_pending = Best(**state.get("best", {})), state.get("is_pending", False)
    return Progress(state["step"], state["seconds"], best, is_pending)


def _numbers(state: dict[str, Any]) -> dict[str, Any]:
    """The optimizer's values that are no tensors, by the number of their weight and their name."""
    numbers = state["optimizer"]
    if not isinstance(numbers, dict) or not all(map(OPTIMIZER_KEY.fullmatch, numbers)):
        raise ValueError("state.json does not describe the state of an optimizer")
    return numbers


def load_weights(model: nn.Module, found: dict[str, Tensor], where: Path, hint: str) -> None:
    """Load weights into a model; WeightError names the tensor that does not belong to it."""
    check_weights(model, {name: tensor.shape for name, tensor in found.items()}, where, hint)
    model.load_state_dict(found, strict=True)


def check_weights(
    model: nn.Module, found: Mapping[str, tuple[int, ...]], where: Path, hint: str
) -> None:
    """Raise WeightError unless weights of these shapes are those of the model."""
    wanted = model.state_dict()
    check_names(set(found), set(wanted), where, hint)
    for name, tensor in wanted.items():
        check_shape(where, name, found[name], tensor.shape, hint)


def step_name(step: int) -> str:
    """The name of a checkpoint's folder."""
    return f"step-{step:09d}"


def find_checkpoints(folder: Path) -> list[Path]:
    """The folders of the checkpoints, oldest first."""
    return _own_folders(folder, CHECKPOINT)


def _own_folders(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """The subfolders with names that relmo gives, sorted: a link or any other name is not ours."""
    found = (p for p in folder.glob("step-*") if name.fullmatch(p.name))
    return sorted(p for p in found if p.is_dir() and not p.is_symlink())


def last_step(folder: Path) -> int | None:
    """The step of the last checkpoint; None if there is none."""
    found = find_checkpoints(folder)
    return int(found[-1].name.removeprefix("step-")) if found else None


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _restore_optimizer(
    optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], numbers: dict[str, Any]
) -> None:
    state: dict[int, dict[str, Any]] = {}
    other = "the checkpoint belongs to an optimizer of other weights; start again"
    for key, value in {**tensors, **numbers}.items():
        if not OPTIMIZER_KEY.fullmatch(key):
            raise WeightError(other)
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    weights = [p for group in optimizer.param_groups for p in group["params"]]
    for place, values in state.items():
        shapes = {v.shape for v in values.values() if isinstance(v, Tensor) and v.ndim}
        if place >= len(weights) or not shapes <= {weights[place].shape}:
            raise WeightError(other)
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
