"""The network of sst with a yes or no for each of K labels, instead of one class of K.

words (B, T) -> scores (B, K), each the log odds that a text has a label

A text is given the labels whose score reaches their threshold. Thresholds are buffers, saved with
the weights: they suit these weights only.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from relmo.tasks.inputs import TokenBatch, TokenInput
from relmo.tasks.sst.model import SstModel, SstSettings


class MultilabelModel(SstModel):
    """Scores the K labels of a text."""

    thresholds: Tensor
    """(K,) scores from which on a text has a label; 0, probability 0.5, before any were chosen."""

    def __init__(self, settings: SstSettings, tokens: TokenInput, num_labels: int) -> None:
        super().__init__(settings, tokens, num_labels)
        self.register_buffer("thresholds", torch.zeros(num_labels))

    def loss(self, batch: TokenBatch, num_windows: Tensor | None, has_label: Tensor) -> Tensor:
        """Mean -log p of the texts' labels, (B, K) true or false, plus the penalty of the mixes."""
        scores = self(batch, num_windows).float()  # (B, K)
        each = binary_cross_entropy_with_logits(scores, has_label.float(), reduction="none")
        return each.sum(1).mean() + self.tokens.penalty()


def best_thresholds(scores: Tensor, has_label: Tensor) -> Tensor:
    """(K,) thresholds, each with the best F1 that its label can have on these examples.

    A threshold lies midway between two scores; of several equally good ones it is the nearest to 0.
    A label that no example has keeps 0.

    Args:
        scores: (N, K) of the examples.
        has_label: (N, K) whether an example has a label.
    """
    N = len(scores)
    above, order = scores.double().sort(0, descending=True)  # (N, K)
    below = torch.cat([above[1:], above[-1:] - 2])  # the last threshold is below all scores
    between = (above + below) / 2  # (N, K), row n gives a label to n + 1 examples
    correct = has_label.gather(0, order).cumsum(0)  # (N, K)
    given = torch.arange(1, N + 1, device=scores.device)[:, None]  # (N, 1)
    f1 = 2 * correct / (given + has_label.sum(0))  # (N, K)
    f1 = f1.masked_fill(above == below, -1)  # equal scores cannot be told apart
    far = between.abs().masked_fill(f1 < f1.amax(0), float("inf"))
    found = between.gather(0, far.argmin(0, keepdim=True))[0]  # (K,)
    return torch.where(has_label.any(0), found, 0.0).float()
