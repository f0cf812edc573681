"""The best weights of a run so far: best.safetensors, replaced whole whenever a score is better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import nn

from relmo.errors import WeightError
from relmo.files import replacing

NAME = "best.safetensors"


@dataclass(frozen=True)
class Best:
    """The best scores, when they were reached, and how many scores have come since."""

    step: int = -1
    scores: dict[str, float] = field(default_factory=dict)
    waited: int = 0

    def is_beaten_by(self, scores: Mapping[str, float], name: str) -> bool:
        """Whether the named figure is higher; a figure that is no number never is."""
        return scores.get(name, float("-inf")) > self.scores.get(name, float("-inf"))


def save_best(folder: Path, model: nn.Module) -> None:
    """Write the model's weights; the file before is replaced when the new one is whole."""
    tensors = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()}
    with replacing(folder / NAME) as temporary:
        save_file(tensors, temporary)


def load_best(folder: Path, model: nn.Module) -> None:
    """Take up the best weights."""
    path = folder / NAME
    if not path.is_file():
        raise WeightError(f"{path} is not there: this run has not scored yet; train it on")
    model.load_state_dict(load_file(path), strict=True)
