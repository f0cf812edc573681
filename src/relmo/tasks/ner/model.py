"""A tagger: token vectors -> biLSTM -> a score per tag -> CRF.

words (B, T) -> [static; letters; ELMo] (B, T, E) -> biLSTM (B, T, 2H) -> tags (B, T, K)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from relmo.config import Count, CountOrZero, Depth, DropoutRate, Settings
from relmo.nn.blocks.crf import Crf
from relmo.nn.blocks.encoder import RecurrentEncoder
from relmo.tasks.chunk_tags import transitions_allowed
from relmo.tasks.inputs import TokenBatch, TokenInput


@dataclass(frozen=True, kw_only=True)
class NerSettings(Settings):
    """Settings of the tagger."""

    cell_width: Count = 200
    num_layers: Depth = 2
    dropout: DropoutRate = 0.5
    """Before each layer and before the tags, the same features at all tokens of a sentence."""
    hidden_width: CountOrZero = 0
    """Width of a layer between the biLSTM and the tags; 0 leaves it out."""
    uncounted: tuple[str, ...] = ()
    """Labels of entities that scores leave out, since the dev and test parts do not have them: a
    training part that is made of several data sets may have more kinds of entities."""


class NerModel(nn.Module):
    """Tags each token of a sentence with one of K tags, given in the order of their numbers."""

    def __init__(self, settings: NerSettings, tokens: TokenInput, tags: Sequence[str]) -> None:
        super().__init__()
        s, self.tokens = settings, tokens
        self.encoder = RecurrentEncoder(tokens.width, s.cell_width, s.num_layers, s.dropout)
        width = self.encoder.width + tokens.extra_width
        self.hidden: nn.Module = nn.Identity()
        if s.hidden_width:
            self.hidden = nn.Sequential(nn.Linear(width, s.hidden_width), nn.Tanh())
        self.dropout = nn.Dropout(s.dropout)
        self.to_tags = nn.Linear(s.hidden_width or width, len(tags))
        self.crf = Crf(len(tags), torch.tensor(transitions_allowed(tags)))

    def forward(self, batch: TokenBatch) -> Tensor:
        """Scores of the tags, (B, T, K)."""
        h = self.encoder(self.tokens(batch), batch.lengths)  # (B, T, 2H)
        h = self.dropout(self.tokens.beside(h, batch))  # (B, T, F)
        scores: Tensor = self.to_tags(self.hidden(h))  # (B, T, K)
        return scores

    def loss(self, batch: TokenBatch, tags: Tensor) -> Tensor:
        """Mean -log p of the tags (B, T) of a sentence, plus the penalty of the mixes."""
        losses = self.crf.loss(self(batch), tags, batch.mask)  # (B,)
        return losses.mean() + self.tokens.penalty()

    def decode(self, batch: TokenBatch) -> list[list[int]]:
        """The best tags of each sentence."""
        return self.crf.decode(self(batch), batch.mask)
