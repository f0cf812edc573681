"""How alike each token of one sentence is to each of another: w1·a + w2·b + w3·(a * b)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Trilinear(nn.Module):
    """A learned similarity of all pairs: (B, T, D) and (B, S, D) -> (B, T, S).

    The third term is one product of matrices, so the (B, T, S, D) pairs are never laid out.

    Args:
        width: D.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.of_first = nn.Linear(width, 1, bias=False)
        self.of_second = nn.Linear(width, 1, bias=False)
        self.of_both = nn.Parameter(torch.empty(width))
        bound = (6 / (3 * width + 1)) ** 0.5  # Glorot's, of one map of [a; b; a * b]
        for weight in (self.of_first.weight, self.of_second.weight, self.of_both):
            nn.init.uniform_(weight, -bound, bound)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Similarities (B, T, S), float32, of the tokens of `first` to those of `second`."""
        both = (first * self.of_both) @ second.mT  # (B, T, S)
        one, other = self.of_first(first), self.of_second(second).mT  # (B, T, 1), (B, 1, S)
        # Added in float32: in fewer bits, what a row has in common would blur its differences.
        scores: Tensor = both.float() + one.float() + other.float()
        return scores
