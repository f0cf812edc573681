"""The softmax of the language models, shared by both directions: full, or against a sample.

The sample is drawn afresh for each step: word k is in it with its own chance q_k, independently of
the others, where q follows a log-uniform law over the ranks (words are sorted by count). The
correction of sampled softmax is then -log q_k exactly: there is no number of draws to get wrong.

A model may learn from another one, too (knowledge distillation: Hinton et al., 2015): part of the
loss is then the cross-entropy against what the teacher expects, over the same words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from relmo.errors import ConfigError

MASKED = -1e30
"""The score of a word that does not count: its power is zero, and zero times it is zero."""


class Lesson(NamedTuple):
    """What a teacher, another language model with the same words, says before each target."""

    hidden: Tensor
    """(..., P') its own top layer."""
    head: LmHead
    """Its softmax."""
    weight: float
    """Its share of the loss; the rest is that of the targets themselves."""


class LmHead(nn.Module):
    """Scores of V words from what a language model says: (N, P) -> (N, V)."""

    def __init__(self, num_words: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_words, width))
        self.bias = nn.Parameter(torch.empty(num_words))

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """Full softmax, (N, P) -> (N, V)."""
        return torch.log_softmax(F.linear(hidden, self.weight, self.bias), -1)

    def losses(self, hidden: Tensor, targets: Tensor, lesson: Lesson | None = None) -> Tensor:
        """-log p of each target by the full softmax, (N, P), (N,) -> (N,); taught if a lesson is.

        With a lesson, this is the cross-entropy against the target and the teacher's prediction.
        """
        scores = F.linear(hidden, self.weight, self.bias).float()  # (N, V)
        if lesson is None:
            return F.cross_entropy(scores, targets, reduction="none")
        taught = F.linear(lesson.hidden, lesson.head.weight, lesson.head.bias)  # (N, V)
        return taught_losses(scores, taught.float(), targets, lesson.weight)

    def sampled_losses(
        self, hidden: Tensor, targets: Tensor, sample: Sample, lesson: Lesson | None = None
    ) -> Tensor:
        """As `losses` among each target and the sample, (N,): not comparable with `losses`."""
        scores = self.sampled_scores(hidden, targets, sample)  # (N, 1 + S)
        if lesson is None:
            return torch.logsumexp(scores, 1) - scores[:, 0]
        taught = lesson.head.sampled_scores(lesson.hidden, targets, sample)
        return taught_losses(scores, taught, torch.zeros_like(targets), lesson.weight)

    def sampled_scores(self, hidden: Tensor, targets: Tensor, sample: Sample) -> Tensor:
        """Corrected scores of each target, first, and of the sample, (N, 1 + S)."""
        own = (hidden * self.weight[targets]).sum(-1)  # (N,)
        own = own + self.bias[targets] - sample.log_chances[targets]
        scores = F.linear(hidden, self.weight[sample.words])  # (N, S)
        scores = scores + (self.bias[sample.words] - sample.log_chances[sample.words])
        is_own = targets.unsqueeze(1) == sample.words  # (N, S): a target is no negative of itself
        return torch.cat([own.unsqueeze(1), scores.masked_fill(is_own, MASKED)], 1)


def taught_losses(scores: Tensor, taught: Tensor, targets: Tensor, weight: float) -> Tensor:
    """Cross-entropy (N,) of scores (N, K) against the targets (N,) and a teacher's scores (N, K).

    Args:
        scores: of the model that learns.
        taught: of the teacher.
        targets: columns.
        weight: the teacher's share.
    """
    log_p = torch.log_softmax(scores, 1)
    own = log_p.gather(1, targets.unsqueeze(1)).squeeze(1)
    expected = (torch.softmax(taught, 1) * log_p).sum(1)
    return -(1 - weight) * own - weight * expected


@dataclass(frozen=True)
class Sample:
    """The negatives of one step."""

    words: Tensor
    """(S,) ids."""
    log_chances: Tensor
    """(V,) log of each word's chance to be drawn, float32."""


class Sampler:
    """Draws negatives: about `expected` of `num_words`, the same for the same seed and step."""

    def __init__(self, num_words: int, expected: int, seed: int = 0) -> None:
        if num_words < 2 or expected < 1:
            raise ConfigError(
                f"{expected} negatives of {num_words} words; at least 1 of 2 words is needed"
            )
        law = log_uniform(num_words)
        self.chances = inclusion_chances(law, min(expected, num_words - 1))
        self.seed = seed

    def draw(self, step: int) -> NDArray[np.int64]:
        """Ids of the negatives of a step, sorted, (S,)."""
        rng = np.random.default_rng((self.seed, 1, step))
        return np.flatnonzero(rng.random(len(self.chances)) < self.chances)


def log_uniform(num_words: int) -> NDArray[np.float64]:
    """About how often each word of a vocabulary sorted by count occurs, (V,): a law of ranks."""
    ranks = np.arange(num_words)
    law: NDArray[np.float64] = np.log1p(1 / (ranks + 1)) / np.log(num_words + 1)
    return law


def inclusion_chances(law: NDArray[np.float64], expected: int) -> NDArray[np.float64]:
    """Chance of each word to be among n draws, where n gives `expected` words on average."""
    low, high = float(expected), 1e12
    for _ in range(200):
        n = (low * high) ** 0.5
        if -np.expm1(n * np.log1p(-law)).sum() < expected:
            low = n
        else:
            high = n
    return -np.expm1(low * np.log1p(-law))


def initialize(head: LmHead, generator: torch.Generator) -> None:
    """Fill fresh parameters at random, as the original does."""
    nn.init.normal_(head.weight, 0.0, head.weight.shape[1] ** -0.5, generator=generator)
    nn.init.zeros_(head.bias)
