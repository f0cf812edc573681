"""torch's layers without their random start: weights come from a file or from `initialize`.

A start that is then overwritten costs seconds on a full-size model.
"""

from torch import Tensor, nn

from relmo.kernels.reference import linear_alike


class Linear(nn.Linear):
    """nn.Linear, left empty; in inference a row's result is its own to the bit."""

    def reset_parameters(self) -> None:
        """Do nothing."""

    def forward(self, x: Tensor) -> Tensor:
        """Multiply (N, I) -> (N, O)."""
        return linear_alike(x, self.weight, self.bias)


class Conv1d(nn.Conv1d):
    """nn.Conv1d, left empty."""

    def reset_parameters(self) -> None:
        """Do nothing."""


class Embedding(nn.Embedding):
    """nn.Embedding, left empty."""

    def reset_parameters(self) -> None:
        """Do nothing."""


def versions(module: nn.Module) -> tuple[object, ...]:
    """What tells weights apart: where they are, how often torch has written to them."""
    return tuple(
        (p.data_ptr(), 0 if p.is_inference() else p._version, p.device, p.requires_grad)
        for p in module.parameters()
    )
