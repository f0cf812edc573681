"""Layers that transform each vector on its own: a linear map with a ReLU, and maxout."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from relmo.errors import ConfigError

Norm = Literal["batch", "layer"]
FEWEST = 4
"""Minimum size for layer normalization, which leaves little of fewer values but their order."""


class Maxout(nn.Module):
    """The maximum of several normalized linear maps, feature by feature: (B, F) -> (B, G).

    Args:
        width: F.
        output_width: G.
        pieces: number of linear maps.
        dropout: on the output.
        norm: normalizes each feature over the batch (batch; outside training by the running
            statistics), or each vector over its features (layer).
    """

    def __init__(
        self, width: int, output_width: int, pieces: int, dropout: float, norm: Norm = "batch"
    ) -> None:
        super().__init__()
        self.pieces = pieces
        values = output_width * pieces
        if norm == "layer" and values < FEWEST:
            raise ConfigError(
                f"a maxout layer of {values} values is too narrow for layer normalization, which "
                f"needs {FEWEST}; lower reduction, or use maxout_norm batch"
            )
        self.maps = nn.Linear(width, values, bias=False)
        self.norm = BatchNorm(values) if norm == "batch" else nn.LayerNorm(values)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """The maximum of the pieces."""
        found = self.norm(self.maps(x).float())  # (B, G * pieces)
        largest: Tensor = self.dropout(found.view(len(x), -1, self.pieces).amax(-1))
        return largest  # (B, G)


class BatchNorm(nn.BatchNorm1d):
    """Batch normalization that normalizes a batch of one by the running statistics."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, F) normalized."""
        if self.training and len(x) == 1:
            return nn.functional.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        return super().forward(x)


def rectified(width: int, output_width: int) -> nn.Sequential:
    """A linear map and a ReLU, initialized to preserve the scale of activations."""
    linear = nn.Linear(width, output_width)
    nn.init.kaiming_uniform_(linear.weight, nonlinearity="relu")
    nn.init.zeros_(linear.bias)
    return nn.Sequential(linear, nn.ReLU())
