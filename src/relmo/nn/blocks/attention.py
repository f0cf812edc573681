"""Attention and pooling over padded sentences.

    scores, mask -> weights                      masked_softmax
    (B, T, F), (B, S, F) -> scores (B, T, S)     dot_scores, Trilinear
    scores, (B, S, F) -> (B, T, F)               align: weighted means of the other sentence
    (B, T, F) -> (B, F)                          max_pool, min_pool, mean_pool, AttentivePool

Masks are true at tokens and false at padding. Scores, weights and pools are float32, also under
autocast; a sentence without tokens gives zeros, never NaN.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

FAR_BELOW = -1e9
"""Score of padding: far below any other, but finite, as the gradient of -inf is NaN."""


def masked_softmax(scores: Tensor, mask: Tensor, dim: int = -1) -> Tensor:
    """Softmax over the unmasked scores, in float32; 0 at masked ones, and if all are masked.

    Args:
        scores: any shape and precision.
        mask: bool, of a shape that broadcasts to that of the scores.
        dim: the dimension along which weights sum up to 1.
    """
    there = scores.float().masked_fill(~mask, FAR_BELOW)
    return torch.softmax(there, dim).masked_fill(~mask, 0.0)


def dot_scores(one: Tensor, other: Tensor) -> Tensor:
    """Dot products of all pairs of tokens, (B, T, F), (B, S, F) -> (B, T, S).

    In float32 under autocast too: bfloat16 is too coarse for a sum over hundreds of features.
    """
    with torch.autocast(one.device.type, enabled=False):
        return torch.bmm(one.float(), other.float().mT)


def align(scores: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """For each of T tokens the mean of S values, weighted by the softmax of its scores.

    Args:
        scores: (B, T, S).
        values: (B, S, F).
        mask: (B, S), of the values.
    """
    weights = masked_softmax(scores, mask.unsqueeze(1))  # (B, T, S)
    return torch.bmm(weights.to(values.dtype), values)  # (B, T, F)


def max_pool(values: Tensor, mask: Tensor) -> Tensor:
    """The maximum of each feature over a sentence's tokens: (B, T, F), (B, T) -> (B, F)."""
    found = values.float().masked_fill(~mask.unsqueeze(-1), FAR_BELOW).amax(1)  # (B, F)
    return found * mask.any(1, keepdim=True)  # (B, F)


def min_pool(values: Tensor, mask: Tensor) -> Tensor:
    """The minimum of each feature over a sentence's tokens: (B, T, F), (B, T) -> (B, F)."""
    return -max_pool(-values, mask)


def mean_pool(values: Tensor, mask: Tensor) -> Tensor:
    """The mean of each feature over a sentence's tokens: (B, T, F), (B, T) -> (B, F)."""
    there = values.float().masked_fill(~mask.unsqueeze(-1), 0.0)  # (B, T, F)
    return there.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)  # (B, F)


class AttentivePool(nn.Module):
    """A mean of a sentence's tokens with learned weights: (B, T, F), (B, T) -> (B, F)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.to_score = nn.Linear(width, 1)

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        """One vector per sentence."""
        scores = self.to_score(values).squeeze(-1)  # (B, T)
        weights = masked_softmax(scores, mask).unsqueeze(-1)  # (B, T, 1)
        return (weights * values.float()).sum(1)  # (B, F)


class Trilinear(nn.Module):
    """A learned similarity w1·a + w2·b + w3·(a * b): (B, T, D), (B, S, D) -> (B, T, S).

    The third term is one product of matrices, so the (B, T, S, D) pairs are never materialized.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.of_first = nn.Linear(width, 1, bias=False)
        self.of_second = nn.Linear(width, 1, bias=False)
        self.of_both = nn.Parameter(torch.empty(width))
        bound = (6 / (3 * width + 1)) ** 0.5  # Glorot's, for one map of [a; b; a * b]
        for weight in (self.of_first.weight, self.of_second.weight, self.of_both):
            nn.init.uniform_(weight, -bound, bound)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Similarities (B, T, S) of the tokens of `first` and of `second`, in float32."""
        both = (first * self.of_both) @ second.mT  # (B, T, S)
        one, other = self.of_first(first), self.of_second(second).mT  # (B, T, 1), (B, 1, S)
        # Summed in float32: in bfloat16 a large common term would hide the differences in a row.
        scores: Tensor = both.float() + one.float() + other.float()  # (B, T, S)
        return scores
