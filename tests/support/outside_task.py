"""A task as somebody outside the package writes it: the mood of a sentence, good or bad.

good<TAB>what a warm day        a line of its files
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relmo.config import Count, Settings
from relmo.tasks.data_files import Part, numbered_lines
from relmo.tasks.inputs import TokenBatch, TokenInput, Words
from relmo.tasks.labelled import LabelledTask


@dataclass(frozen=True, kw_only=True)
class MoodSettings(Settings):
    """The model's shape."""

    width: Count = 8


@dataclass(frozen=True)
class Line:
    """An example."""

    words: Words
    mood: str = ""


class MoodModel(nn.Module):
    """Token vectors -> their mean -> scores of the moods, (B, K)."""

    def __init__(self, settings: MoodSettings, tokens: TokenInput, num_moods: int) -> None:
        super().__init__()
        self.tokens = tokens
        self.encode = nn.Linear(tokens.width, settings.width)
        self.score = nn.Linear(settings.width + tokens.extra_width, num_moods)

    def forward(self, batch: TokenBatch) -> Tensor:
        """Scores of the moods, (B, K)."""
        h = torch.tanh(self.encode(self.tokens(batch)))  # (B, T, H)
        tokens = self.tokens.beside(h, batch) * batch.mask[..., None]  # (B, T, F)
        scores: Tensor = self.score(tokens.sum(1) / batch.mask.sum(1, keepdim=True))
        return scores

    def loss(self, batch: TokenBatch, moods: Tensor) -> Tensor:
        """The mean loss of moods (B,)."""
        return cross_entropy(self(batch), moods) + self.tokens.penalty()


class MoodTask(LabelledTask[Line, str, MoodSettings]):
    """Predicts the mood of a sentence."""

    score = "dev_accuracy"
    settings_type = MoodSettings
    net: MoodModel

    @classmethod
    def read(cls, path: Path, part: Part) -> list[Line]:
        pairs = (line.split("\t") for _, line in numbered_lines(path))
        return [Line(tuple(text.split()), mood) for mood, text in pairs]

    @classmethod
    def facts_of(cls, train: Sequence[Line]) -> dict[str, Any]:
        return {"moods": sorted({line.mood for line in train})}

    @classmethod
    def sentences(cls, example: Line) -> list[Words]:
        return [example.words]

    def read_input(self, *texts: str) -> list[Line]:
        (text,) = texts
        return [Line(tuple(text.split()))] if text.strip() else []

    def set_up(self, facts: dict[str, Any], tokens: TokenInput) -> None:
        self.moods: list[str] = facts["moods"]
        self.net = MoodModel(self.settings, tokens, len(self.moods))

    def targets(self, examples: Sequence[Line]) -> tuple[Tensor, ...]:
        return (torch.tensor([self.moods.index(e.mood) for e in examples], device=self.device),)

    def predict_batch(self, examples: Sequence[Line]) -> list[str]:
        return [self.moods[i] for i in self.net(*self.model_inputs(examples)).argmax(-1).tolist()]

    def scores(self, examples: Sequence[Line], predictions: Sequence[str]) -> dict[str, float]:
        right = [e.mood == found for e, found in zip(examples, predictions, strict=True)]
        return {"accuracy": 100 * sum(right) / max(len(right), 1)}
