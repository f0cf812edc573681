"""A task with labelled examples: what all six have in common as `relmo.train` sees it.

A task's own file says how examples become a batch, what the model makes of it and how predictions
are scored; here are epochs, batches of like lengths, arithmetic and the best score.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from relmo.errors import ConfigError, TextError
from relmo.nn.scalar_mix import ScalarMix
from relmo.tasks.parts import Part
from relmo.train.trainer import check_whole

Example = TypeVar("Example")
Prediction = TypeVar("Prediction")


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """How examples are put together."""

    size: int = 32
    """Examples per step."""
    max_length: int = 0
    """Longer examples are left out of training; 0 keeps all."""
    sorted_together: int = 64
    """Batches whose examples are sorted by length together: little padding, much shuffling. With 1
    lengths stand mixed as they come, as normalising over a batch wants them."""
    share: float = 1.0
    """Of the training examples, drawn by the run's seed, that are learned from."""

    def __post_init__(self) -> None:
        check_whole(self, {"size": 1, "max_length": 0, "sorted_together": 1})
        if not 0 < self.share <= 1:
            raise ConfigError(f"share is {self.share}; a share above 0 and up to 1 is needed")


class LabelledTask(ABC, Generic[Example, Prediction]):
    """Trains `model` on examples. See `relmo.train.task.Task`.

    Args:
        model: what is trained.
        train: examples to learn from; may be empty where a model is only used.
        dev: examples by which the best weights are chosen.
        batches: how examples are put together.
        seed: of the shuffle.
        device: where the model runs.
    """

    score: str
    """The figure of `evaluate` that decides, higher being better: "dev_f1"."""

    def __init__(
        self,
        model: nn.Module,
        train: Sequence[Example],
        dev: Sequence[Example],
        batches: BatchSettings,
        seed: int,
        device: torch.device,
    ) -> None:
        self.model = model.to(device)
        limit = batches.max_length
        self.train = [e for e in train if not limit or self.length(e) <= limit]
        self.dev, self.batches, self.seed, self.device = dev, batches, seed, device
        self.steps_per_epoch = max(1, -(-len(self.train) // batches.size))
        self._epoch = -1
        self._plan: list[list[int]] = []
        self._sum = torch.zeros((), device=device)
        self._steps = 0

    # ── what a task says ────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def length(self, example: Example) -> int:
        """Of an example, by which batches are put together."""

    @abstractmethod
    def batch_loss(self, examples: Sequence[Example]) -> Tensor:
        """The mean loss of a batch."""

    @abstractmethod
    def predict_batch(self, examples: Sequence[Example]) -> list[Prediction]:
        """What the model says of each example of a batch; labels are not looked at."""

    @abstractmethod
    def scores(
        self, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> dict[str, float]:
        """Figures of predictions beside the labels, in percent."""

    def counts(
        self, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> list[Any] | None:
        """What each example adds to the sums that the scores are made of; None if none is kept.

        With them two runs are compared by `relmo.lab.bootstrap`.
        """
        return None

    @classmethod
    @abstractmethod
    def read(cls, path: Path, part: Part) -> list[Example]:
        """Labelled examples of a file in the task's format."""

    @classmethod
    def check(cls, path: Path, examples: Sequence[Example], facts: Mapping[str, Any]) -> None:
        """Raise DataError where examples do not go with what the training part holds.

        Args:
            path: the file they were read from.
            examples: of a development or test part.
            facts: what the task found in its training data.
        """

    @abstractmethod
    def read_text(self, lines: Iterable[str]) -> Iterator[Example]:
        """Examples without labels from plain text."""

    @abstractmethod
    def describe(self, example: Example, prediction: Prediction) -> dict[str, Any]:
        """An answer as JSON holds it."""

    @abstractmethod
    def render(self, example: Example, prediction: Prediction) -> str:
        """An answer as a person reads it."""

    # ── what the trainer asks ───────────────────────────────────────────────────────────────────

    def loss(self, step: int) -> Tensor:
        """The mean loss of one step."""
        with self.arithmetic():
            loss = self.batch_loss(self.examples_of(step)).float()
        self._sum += loss.detach()
        self._steps += 1
        return loss

    def measures(self) -> dict[str, float]:
        """The mean loss since the last call."""
        mean = self._sum.item() / max(self._steps, 1)
        self._sum.zero_()
        self._steps = 0
        return {"mean_loss": mean}

    def evaluate(self) -> dict[str, float]:
        """Figures on the development examples."""
        return {f"dev_{k}": v for k, v in self.score_on(self.dev).items()}

    def mixes(self) -> dict[str, dict[str, Any]]:
        """The learned shares of ELMo's layers and gamma, by place."""
        found = {n: m for n, m in self.model.named_modules() if isinstance(m, ScalarMix)}
        return {
            name.rpartition(".")[2]: {
                "weights": mix.weights().tolist(),
                "gamma": mix.gamma.item(),
            }
            for name, mix in found.items()
        }

    def state(self) -> dict[str, Tensor]:
        """Nothing is carried from step to step."""
        return {}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Nothing was carried."""

    # ── use ─────────────────────────────────────────────────────────────────────────────────────

    def score_on(self, examples: Sequence[Example]) -> dict[str, float]:
        """Figures of the model's predictions for labelled examples."""
        return self.scores(examples, self.predict(examples))

    @torch.no_grad()
    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """What the model says of each example, in order."""
        self.model.eval()
        order = sorted(range(len(examples)), key=lambda i: self.length(examples[i]))
        found: dict[int, Prediction] = {}
        for first in range(0, len(order), self.batches.size):
            part = order[first : first + self.batches.size]
            with self.arithmetic():
                found.update(
                    zip(part, self.predict_batch([examples[i] for i in part]), strict=True)
                )
        return [found[i] for i in range(len(examples))]

    def examples_of(self, step: int) -> list[Example]:
        """The examples of a step: a function of the seed and the step's number."""
        epoch, number = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._plan, self._epoch = self._plan_epoch(epoch), epoch
        return [self.train[i] for i in self._plan[number]]

    def arithmetic(self) -> AbstractContextManager[None]:
        """bfloat16 products on a GPU, float32 elsewhere."""
        on_gpu = self.device.type == "cuda"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=on_gpu)

    def _plan_epoch(self, epoch: int) -> list[list[int]]:
        """Shuffled, sorted by length within parts, cut into batches, which are shuffled again."""
        rng = np.random.default_rng((self.seed, epoch))
        order = rng.permutation(len(self.train)).tolist()
        size, part = self.batches.size, self.batches.sorted_together * self.batches.size
        batches: list[list[int]] = []
        for first in range(0, len(order), part):
            near = sorted(order[first : first + part], key=lambda i: self.length(self.train[i]))
            batches += [near[k : k + size] for k in range(0, len(near), size)]
        return [batches[i] for i in rng.permutation(len(batches))]


def check_labels(path: Path, found: Iterable[str], known: Sequence[str]) -> None:
    """Raise TextError where no label of a file is one of the training part's."""
    labels = set(found)
    if labels and not labels & set(known):
        shown = [", ".join(map(repr, sorted(each)[:5])) for each in (labels, known)]
        raise TextError(
            f"{path}: none of its labels ({shown[0]}) is one of the training part's ({shown[1]}); "
            f"write them alike"
        )
