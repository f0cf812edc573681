"""What can be trained: a module, a loss for each step, a score."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn


class Task(Protocol):
    """Something to train. A step's loss depends on its number, the weights and `state` alone."""

    steps_per_epoch: int

    @property
    def score(self) -> str | None:
        """The figure of `evaluate` whose best weights are kept, higher being better.

        None keeps the last weights.
        """

    @property
    def model(self) -> nn.Module:
        """What is trained."""

    def loss(self, step: int) -> Tensor:
        """The mean loss of one step, ready for `backward`."""

    def measures(self) -> dict[str, float]:
        """Figures of the last steps, for the log; names say what they are."""

    def evaluate(self) -> dict[str, float]:
        """Scores on held-out data."""

    def state(self) -> dict[str, Tensor]:
        """What is carried from step to step besides the weights."""

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Take up what `state` gave."""
