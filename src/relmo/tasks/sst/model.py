"""The biattentive classification network (McCann et al. 2017): a text -> one of K classes.

words (B, T) -> [static; ELMo] (B, T, E) -> ReLU -> biLSTM -> H = [h; ELMo'] (B, T, F)
C = what the text says about each of its tokens (B, T, F)
[H; H - C; H * C] (B, T, 3F) -> biLSTM (B, T, 2I) -> max, mean, min, attentive (B, 8I)
-> maxout, twice -> classes (B, K)

The paper's network reads two texts; to classify one it reads it twice. The attention from the one
copy to the other is then that from the other to the one, so a single copy is read here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from relmo.errors import ConfigError
from relmo.nn.blocks.attention import (
    AttentivePool,
    align,
    dot_scores,
    max_pool,
    mean_pool,
    min_pool,
)
from relmo.nn.blocks.encoder import Encoder
from relmo.nn.blocks.feed_forward import Maxout, Norm, rectified
from relmo.tasks.inputs import TokenBatch, TokenInput
from relmo.train.trainer import check_whole

LEAST = {
    "hidden_width": 0, "cell_width": 1, "integrator_width": 1, "maxout_layers": 1, "pieces": 1,
    "reduction": 1,
}  # fmt: skip
"""Settings that are whole numbers, and from where on."""


@dataclass(frozen=True, kw_only=True)
class SstSettings:
    """The network's shape."""

    hidden_width: int = 300
    """Of the ReLU layer between the token vectors and the encoder; 0 has none."""
    cell_width: int = 300
    integrator_width: int = 300
    """I, of each direction of the second biLSTM."""
    dropout: float = 0.2
    """Before each biLSTM, of each token anew: features that a whole text loses at once drown what
    sets one text apart from another."""
    maxout_layers: int = 2
    pieces: int = 4
    """Linear maps of which a maxout layer takes the largest."""
    reduction: int = 4
    """By how much each maxout layer narrows what it is given."""
    maxout_dropout: float = 0.2
    maxout_norm: Norm = "batch"
    """Over what a maxout layer's values are normalised. `batch` is the paper's: what it keeps from
    training was seen through dropout, and the text that is classified is not. With few examples
    `layer` learns more steadily, with many it is no better (experiments/LOG.md)."""

    def __post_init__(self) -> None:
        check_whole(self, LEAST)
        for name in ("dropout", "maxout_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; a share below 1 is needed")
        if self.maxout_norm not in ("batch", "layer"):
            raise ConfigError(f"maxout_norm is {self.maxout_norm!r}; choose batch or layer")


class SstModel(nn.Module):
    """Scores the classes of a text.

    Args:
        settings: the shape.
        tokens: makes token vectors.
        num_classes: K.
    """

    def __init__(self, settings: SstSettings, tokens: TokenInput, num_classes: int) -> None:
        super().__init__()
        s = settings
        self.tokens = tokens
        self.dropout = nn.Dropout(s.dropout)
        width = s.hidden_width or tokens.width
        self.hidden = rectified(tokens.width, width) if s.hidden_width else nn.Identity()
        self.encoder = Encoder(width, s.cell_width)
        encoded = self.encoder.width + tokens.extra_width  # F
        self.integrator = Encoder(3 * encoded, s.integrator_width)
        self.attentive_pool = AttentivePool(self.integrator.width)
        pooled = 4 * self.integrator.width
        widths = [max(1, pooled // s.reduction**i) for i in range(s.maxout_layers + 1)]
        self.maxout = nn.Sequential(
            *(Maxout(a, b, s.pieces, s.maxout_dropout, s.maxout_norm) for a, b in pairwise(widths))
        )
        self.to_classes = nn.Linear(widths[-1], num_classes)

    def forward(self, batch: TokenBatch) -> Tensor:
        """Scores of the classes, (B, K)."""
        lengths, mask = batch.lengths, batch.mask
        x = self.hidden(self.tokens(batch))  # (B, T, ·)
        h = self.encoder(self.dropout(x), lengths)  # (B, T, 2H)
        h = self.tokens.beside(h, batch)  # (B, T, F)
        context = align(dot_scores(h, h), h, mask)  # (B, T, F)
        both = torch.cat([h, h - context, h * context], -1)  # (B, T, 3F)
        z = self.integrator(self.dropout(both), lengths)  # (B, T, 2I)
        pools = max_pool, mean_pool, min_pool, self.attentive_pool
        pooled = torch.cat([pool(z, mask) for pool in pools], -1)  # (B, 8I)
        scores: Tensor = self.to_classes(self.maxout(pooled))
        return scores

    def loss(self, batch: TokenBatch, classes: Tensor) -> Tensor:
        """Mean -log p of the classes (B,), and the mixes' penalty."""
        losses = nn.functional.cross_entropy(self(batch).float(), classes)
        return losses + self.tokens.penalty()

    def classify(self, batch: TokenBatch) -> list[int]:
        """The likeliest class of each text."""
        found: list[int] = self(batch).argmax(-1).tolist()
        return found
