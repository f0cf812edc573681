"""ESIM (Chen et al. 2017): a premise and a hypothesis -> how the one stands to the other.

words of both (2B, T) -> [static; ELMo] (2B, T, E) -> ReLU -> biLSTM -> [h; ELMo'] (2B, T, F)
a, b (B, T, F) -> a~, b~: what each says about the other's tokens
[a; a~; a - a~; a * a~] (2B, T, 4F) -> ReLU (2B, T, G) -> biLSTM -> mean, max (B, 8I) -> classes
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from relmo.errors import ConfigError
from relmo.nn.blocks.attention import align, dot_scores, max_pool, mean_pool
from relmo.nn.blocks.encoder import Encoder, VariationalDropout
from relmo.nn.blocks.feed_forward import rectified
from relmo.tasks.inputs import TokenBatch, TokenInput
from relmo.train.trainer import check_whole

LEAST = {"hidden_width": 0, "cell_width": 1, "composition_width": 1}
"""Settings that are whole numbers, and from where on."""


@dataclass(frozen=True, kw_only=True)
class SnliSettings:
    """The network's shape."""

    hidden_width: int = 300
    """Of the ReLU layer between the token vectors and the encoder; 0 has none, as in the paper."""
    cell_width: int = 300
    composition_width: int = 300
    """G and I: of the projection, of each direction of the second biLSTM, of the last layer."""
    dropout: float = 0.1
    """Before each biLSTM, of each token anew. The paper's 0.5 is for half a million pairs: what is
    dropped from one sentence and not from the other hides which words are the same."""
    output_dropout: float = 0.3
    """Before the last two layers."""
    is_dropout_shared: bool = False
    """Drop the same features at all tokens of a pair, ELMo's among them, so that what is compared
    can still be compared."""
    aligned_by: Literal["all", "encoder"] = "all"
    """What says which words of the two sentences belong together: all that stands there after the
    encoder, or its own output without ELMo beside it."""
    temperature: float = 1.0
    """Divides the scores of words that may belong together. ELMo's vectors are long: at 1 each word
    sees hardly more than one other."""

    def __post_init__(self) -> None:
        check_whole(self, LEAST)
        for name in ("is_dropout_shared",):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} is {getattr(self, name)!r}; write true or false")
        if self.aligned_by not in ("all", "encoder"):
            raise ConfigError(f"aligned_by is {self.aligned_by!r}; choose all or encoder")
        if not self.temperature > 0:
            raise ConfigError(f"temperature is {self.temperature}; a number above 0 is needed")
        for name in ("dropout", "output_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; a share below 1 is needed")


class PairDropout(VariationalDropout):
    """Drops the same features at every token of both sentences of a pair: (2B, T, F) -> the same.

    The first B rows are the premises, the others their hypotheses.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Drop features, in training."""
        pairs = torch.cat(x.chunk(2), 1)  # (B, 2T, F): a pair as one sentence
        return torch.cat(super().forward(pairs).chunk(2, 1))


class SnliModel(nn.Module):
    """Scores the classes of a pair of sentences.

    Args:
        settings: the shape.
        tokens: makes token vectors.
        num_classes: K.
    """

    def __init__(self, settings: SnliSettings, tokens: TokenInput, num_classes: int) -> None:
        super().__init__()
        s = settings
        self.tokens, self.aligned_by, self.temperature = tokens, s.aligned_by, s.temperature
        self.dropout: nn.Module = nn.Dropout(s.dropout)
        if s.is_dropout_shared:
            self.dropout = PairDropout(s.dropout)
            tokens.share_elmo_dropout(PairDropout(tokens.settings.elmo_dropout))
        width = s.hidden_width or tokens.width
        self.hidden = rectified(tokens.width, width) if s.hidden_width else nn.Identity()
        self.encoder = Encoder(width, s.cell_width)
        encoded = self.encoder.width + tokens.extra_width  # F
        self.projection = rectified(4 * encoded, s.composition_width)
        self.composition = Encoder(s.composition_width, s.composition_width)
        self.to_classes = nn.Sequential(
            nn.Dropout(s.output_dropout),
            nn.Linear(4 * self.composition.width, s.composition_width),
            nn.Tanh(),
            nn.Dropout(s.output_dropout),
            nn.Linear(s.composition_width, num_classes),
        )

    def forward(self, batch: TokenBatch) -> Tensor:
        """Scores of the classes, (B, K).

        Args:
            batch: the B premises, then their B hypotheses, so that each layer reads them at once.
        """
        lengths, mask = batch.lengths, batch.mask
        x = self.hidden(self.tokens(batch))  # (2B, T, ·)
        h = self.encoder(self.dropout(x), lengths)  # (2B, T, 2H)
        scored, h = h, self.tokens.beside(h, batch)  # (2B, T, 2H), (2B, T, F)
        scored = (h if self.aligned_by == "all" else scored) / self.temperature**0.5
        other = _say_about_each_other(h, scored, mask)
        compared = torch.cat([h, other, h - other, h * other], -1)  # (2B, T, 4F)
        x = self.dropout(self.projection(compared))  # (2B, T, G)
        z = self.composition(x, lengths)  # (2B, T, 2I)
        pooled = torch.cat([mean_pool(z, mask), max_pool(z, mask)], -1)  # (2B, 4I)
        scores: Tensor = self.to_classes(torch.cat(pooled.chunk(2), -1))
        return scores

    def loss(self, batch: TokenBatch, classes: Tensor) -> Tensor:
        """Mean -log p of the classes (B,), and the mixes' penalty."""
        losses = nn.functional.cross_entropy(self(batch).float(), classes)
        return losses + self.tokens.penalty()

    def classify(self, batch: TokenBatch) -> list[int]:
        """The likeliest class of each pair."""
        found: list[int] = self(batch).argmax(-1).tolist()
        return found


def _say_about_each_other(h: Tensor, scored: Tensor, mask: Tensor) -> Tensor:
    """For each token the mean of the other sentence's h (2B, T, F) that are like it by `scored`."""
    (a, b), (a_mask, b_mask) = h.chunk(2), mask.chunk(2)
    scores = dot_scores(*scored.chunk(2))  # (B, T, T), premise by hypothesis
    return torch.cat([align(scores, b, b_mask), align(scores.mT, a, a_mask)])
