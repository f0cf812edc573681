"""torch's layers without their random start: weights come from a file or from `initialize`.

A start that is then overwritten costs seconds on a full-size model.
"""

from torch import nn


class Linear(nn.Linear):
    """nn.Linear, left empty."""

    def reset_parameters(self) -> None:
        """Do nothing."""


class Conv1d(nn.Conv1d):
    """nn.Conv1d, left empty."""

    def reset_parameters(self) -> None:
        """Do nothing."""


class Embedding(nn.Embedding):
    """nn.Embedding, left empty."""

    def reset_parameters(self) -> None:
        """Do nothing."""
