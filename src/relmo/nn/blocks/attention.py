"""Attention and pooling over padded sentences.

    scores, mask -> shares                       masked_softmax
    (B, T, F), (B, S, F) -> scores (B, T, S)     dot_scores
    scores, (B, S, F) -> (B, T, F)               align: what the other says about each token
    (B, T, F) -> (B, F)                          max_pool, min_pool, mean_pool, AttentivePool

A mask is True where a token stands. Scores, shares and pools are float32, also under autocast; a
sentence without tokens gives zeros, never numbers that are none.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

FAR_BELOW = -1e9
"""Score of what is not there: far below any other, but no infinity, whose gradient is no number."""


def masked_softmax(scores: Tensor, mask: Tensor, dim: int = -1) -> Tensor:
    """Shares of what the mask lets stand, float32; 0 elsewhere, and where nothing stands at all.

    Args:
        scores: any shape and precision.
        mask: bool, of a shape that broadcasts to that of the scores.
        dim: along which shares sum up to 1.
    """
    there = scores.float().masked_fill(~mask, FAR_BELOW)
    return torch.softmax(there, dim).masked_fill(~mask, 0.0)


def dot_scores(one: Tensor, other: Tensor) -> Tensor:
    """Products of every token of one with every of the other, (B, T, F), (B, S, F) -> (B, T, S).

    In float32 under autocast too: a sum over hundreds of features has no room in bfloat16.
    """
    with torch.autocast(one.device.type, enabled=False):
        return torch.bmm(one.float(), other.float().mT)


def align(scores: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """For each of T tokens the mean of the S values, weighted by the softmax of its scores.

    Args:
        scores: (B, T, S).
        values: (B, S, F).
        mask: (B, S), of the values.
    """
    shares = masked_softmax(scores, mask.unsqueeze(1))  # (B, T, S)
    return torch.bmm(shares.to(values.dtype), values)  # (B, T, F)


def max_pool(values: Tensor, mask: Tensor) -> Tensor:
    """The largest of each feature over a sentence's tokens: (B, T, F), (B, T) -> (B, F)."""
    found = values.float().masked_fill(~mask.unsqueeze(-1), FAR_BELOW).amax(1)  # (B, F)
    return found * mask.any(1, keepdim=True)


def min_pool(values: Tensor, mask: Tensor) -> Tensor:
    """The smallest of each feature over a sentence's tokens: (B, T, F), (B, T) -> (B, F)."""
    return -max_pool(-values, mask)


def mean_pool(values: Tensor, mask: Tensor) -> Tensor:
    """The mean of each feature over a sentence's tokens: (B, T, F), (B, T) -> (B, F)."""
    there = values.float().masked_fill(~mask.unsqueeze(-1), 0.0)
    return there.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


class AttentivePool(nn.Module):
    """A mean of a sentence's tokens whose weights are learned: (B, T, F), (B, T) -> (B, F).

    Args:
        width: F.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.to_score = nn.Linear(width, 1)

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        """One vector per sentence."""
        scores = self.to_score(values).squeeze(-1)  # (B, T)
        shares = masked_softmax(scores, mask).unsqueeze(-1)  # (B, T, 1)
        return (shares * values.float()).sum(1)  # (B, F)
