"""ESIM (Chen et al. 2017): a premise and a hypothesis -> one of K classes.

words of both (2B, T) -> [static; ELMo] (2B, T, E) -> ReLU -> biLSTM -> [h; ELMo'] (2B, T, F)
a, b (B, T, F) -> a~, b~: each token's attention over the other sentence
[a; a~; a - a~; a * a~] (2B, T, 4F) -> ReLU (2B, T, G) -> biLSTM -> mean, max (B, 8I) -> classes
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from relmo.config import Count, CountOrZero, DropoutRate, Positive, Settings
from relmo.nn.blocks.attention import align, dot_scores, max_pool, mean_pool
from relmo.nn.blocks.encoder import RecurrentEncoder, VariationalDropout
from relmo.nn.blocks.feed_forward import rectified
from relmo.tasks.inputs import TokenBatch, TokenInput


@dataclass(frozen=True, kw_only=True)
class SnliSettings(Settings):
    """Settings of the model."""

    hidden_width: CountOrZero = 300
    """Width of the ReLU layer between the token vectors and the encoder; 0 leaves it out, as in the
    paper."""
    cell_width: Count = 300
    composition_width: Count = 300
    """G and I: of the projection, of each direction of the second biLSTM, of the last layer."""
    dropout: DropoutRate = 0.1
    """Before each biLSTM, drawn for each token. The paper's 0.5 is for half a million pairs:
    features dropped from only one of two sentences hide which words they have in common."""
    output_dropout: DropoutRate = 0.3
    """Before the last two layers."""
    is_dropout_shared: bool = False
    """Drop the same features, ELMo's included, at all tokens of a pair, so that tokens stay
    comparable."""
    aligned_by: Literal["all", "encoder"] = "all"
    """What the attention between the sentences compares: the encoder's output with ELMo beside it,
    or the encoder's output alone."""
    temperature: Positive = 1.0
    """Divides the attention's scores. ELMo's vectors are long: at 1 each word attends to hardly
    more than one other."""


class PairDropout(VariationalDropout):
    """Drops the same features at every token of both sentences of a pair: (2B, T, F) -> (2B, T, F).

    The first B rows are the premises, the others their hypotheses.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Drop features in training."""
        pairs = torch.cat(x.chunk(2), 1)  # (B, 2T, F): a pair as one sentence
        return torch.cat(super().forward(pairs).chunk(2, 1))


class SnliModel(nn.Module):
    """Scores the K classes of a pair of sentences."""

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
        self.encoder = RecurrentEncoder(width, s.cell_width)
        encoded = self.encoder.width + tokens.extra_width  # F
        self.projection = rectified(4 * encoded, s.composition_width)
        self.composition = RecurrentEncoder(s.composition_width, s.composition_width)
        self.to_classes = nn.Sequential(
            nn.Dropout(s.output_dropout),
            nn.Linear(4 * self.composition.width, s.composition_width),
            nn.Tanh(),
            nn.Dropout(s.output_dropout),
            nn.Linear(s.composition_width, num_classes),
        )

    def forward(self, batch: TokenBatch) -> Tensor:
        """Scores of the classes, (B, K).

        The batch holds the B premises, then their B hypotheses, so that each layer runs once.
        """
        lengths, mask = batch.lengths, batch.mask
        x = self.hidden(self.tokens(batch))  # (2B, T, ·)
        h = self.encoder(self.dropout(x), lengths)  # (2B, T, 2H)
        scored, h = h, self.tokens.beside(h, batch)  # (2B, T, 2H), (2B, T, F)
        scored = (h if self.aligned_by == "all" else scored) / self.temperature**0.5
        other = align_pairs(h, scored, mask)  # (2B, T, F)
        compared = torch.cat([h, other, h - other, h * other], -1)  # (2B, T, 4F)
        x = self.dropout(self.projection(compared))  # (2B, T, G)
        z = self.composition(x, lengths)  # (2B, T, 2I)
        pooled = torch.cat([mean_pool(z, mask), max_pool(z, mask)], -1)  # (2B, 4I)
        scores: Tensor = self.to_classes(torch.cat(pooled.chunk(2), -1))  # (B, K)
        return scores


def align_pairs(h: Tensor, scored: Tensor, mask: Tensor) -> Tensor:
    """A mean of the other sentence's h (2B, T, F) for each token, by the attention of `scored`."""
    (a, b), (a_mask, b_mask) = h.chunk(2), mask.chunk(2)
    scores = dot_scores(*scored.chunk(2))  # (B, T, T), premise by hypothesis
    return torch.cat([align(scores, b, b_mask), align(scores.mT, a, a_mask)])
