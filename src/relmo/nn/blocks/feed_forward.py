"""Layers that see one vector at a time: a linear map with a ReLU, and maxout."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from relmo.errors import ConfigError

Norm = Literal["batch", "layer"]
FEWEST = 4
"""Values of a vector that are normalised over it: of fewer, little but their order is left."""


class Maxout(nn.Module):
    """Of several linear maps the largest, feature by feature: (B, F) -> (B, G).

    The maps' values are normalised; what comes out is thinned out.

    Args:
        width: F.
        output_width: G.
        pieces: linear maps to choose from.
        dropout: share of the features dropped.
        norm: over what the values are normalised: each feature over the batch (batch; later over
            what training saw), or each vector over its features (layer).
    """

    def __init__(
        self, width: int, output_width: int, pieces: int, dropout: float, norm: Norm = "batch"
    ) -> None:
        super().__init__()
        self.pieces = pieces
        values = output_width * pieces
        if norm == "layer" and values < FEWEST:
            raise ConfigError(
                f"{values} values of a maxout layer are too few to be normalised by vector; "
                f"{FEWEST} are needed: lower reduction, or choose maxout_norm batch"
            )
        self.maps = nn.Linear(width, values, bias=False)
        self.norm = nn.BatchNorm1d(values) if norm == "batch" else nn.LayerNorm(values)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """The largest of the pieces."""
        found = self._normalized(self.maps(x).float())  # (B, G * pieces)
        largest: Tensor = self.dropout(found.view(len(x), -1, self.pieces).amax(-1))
        return largest  # (B, G)

    def _normalized(self, x: Tensor) -> Tensor:
        """With mean 0 and variance 1; one example alone has no variance, so the running one."""
        norm = self.norm
        if isinstance(norm, nn.BatchNorm1d) and self.training and len(x) == 1:
            return nn.functional.batch_norm(
                x, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps
            )
        found: Tensor = norm(x)
        return found


def rectified(width: int, output_width: int) -> nn.Sequential:
    """A linear map and a ReLU, begun so that what goes through keeps its size."""
    linear = nn.Linear(width, output_width)
    nn.init.kaiming_uniform_(linear.weight, nonlinearity="relu")
    nn.init.zeros_(linear.bias)
    return nn.Sequential(linear, nn.ReLU())
