"""The best weights of a run so far: best.safetensors, replaced whole whenever a score is better."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from relmo.errors import WeightError
from relmo.files import explain, replacing
from relmo.weights.tensors import check_names, check_shape

NAME = "best.safetensors"
HINT = "it is of another run: train again in an empty folder"


@dataclass(frozen=True)
class Best:
    """The best scores, when they were reached, and how many scores have come since."""

    step: int = -1
    scores: dict[str, float] = field(default_factory=dict)
    waited: int = 0

    def is_beaten_by(self, scores: Mapping[str, float], name: str) -> bool:
        """Whether the named figure is higher; a figure that is no number never is."""
        return scores.get(name, float("-inf")) > self.scores.get(name, float("-inf"))


def save_best(folder: Path, model: nn.Module, best: Best) -> None:
    """Write the model's weights and scores; an older file is replaced when the new one is whole."""
    tensors = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()}
    with replacing(folder / NAME) as temporary:
        try:
            save_file(tensors, temporary, {"best": json.dumps(asdict(best))})
        except SafetensorError as error:  # how safetensors reports a full disk
            raise OSError(str(error)) from error


def load_best(folder: Path, model: nn.Module) -> Best:
    """Take up the best weights; give the scores that were reached with them."""
    best = read_best(folder)
    if best is None:
        raise WeightError(f"{folder / NAME}: this run has not scored yet; train it on")
    weights, wanted = load_file(folder / NAME), model.state_dict()
    check_names(set(weights), set(wanted), folder / NAME, HINT)
    for name, tensor in wanted.items():
        check_shape(folder / NAME, name, weights[name].shape, tensor.shape, HINT)
    model.load_state_dict(weights, strict=True)
    return best


def read_best(folder: Path) -> Best | None:
    """The scores of the best weights there; None where there are none."""
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        with safe_open(path, "pt") as file:
            return Best(**json.loads(file.metadata()["best"]))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise WeightError(f"{path}: is no file of a run ({error}); train again") from error


def drop_best(folder: Path) -> None:
    """Delete the weights of an earlier run."""
    with explain(folder / NAME):
        (folder / NAME).unlink(missing_ok=True)
