"""Roles of all predicates of a sentence from one reading of it: for long texts and small machines.

words (S, T) -> [static; letters; ELMo] (S, T, E) -> biLSTM, once per sentence (S, T, F)
(word, predicate) -> relu(A h_w + B h_p + (C h_w) * (D h_p) + distance) (B, T, M)
                  -> a small biLSTM over the words of each predicate -> tags (B, T, K)

S sentences have B predicates. `SrlModel` reads a sentence anew through all of its layers, with a
mark, for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from relmo.nn.blocks.encoder import RecurrentEncoder
from relmo.tasks.inputs import TokenBatch, TokenInput
from relmo.tasks.srl.model import PredicateFinder, RoleTagger, SrlSettings

FARTHEST = 32
"""Words between a word and the predicate that are told apart; all farther ones are the same."""


class PairModel(RoleTagger):
    """Tags the words of a sentence for one of its predicates; the K tags are in BIO, by number."""

    def __init__(self, settings: SrlSettings, tokens: TokenInput, tags: Sequence[str]) -> None:
        super().__init__(tags)
        s, self.tokens = settings, tokens
        self.encoder = RecurrentEncoder(tokens.width, s.cell_width, s.num_layers, s.dropout)
        width = self.encoder.width + tokens.extra_width
        self.of_words = nn.Linear(width, 2 * s.pair_width)
        self.of_predicates = nn.Linear(width, 2 * s.pair_width)
        self.distance = nn.Embedding(2 * FARTHEST + 1, s.pair_width)
        nn.init.normal_(self.distance.weight, std=0.1)
        self.dropout = nn.Dropout(s.dropout)
        self.reader, width = None, s.pair_width
        if s.pair_cells:
            self.reader = RecurrentEncoder(s.pair_width, s.pair_cells, dropout=s.dropout)
            width += self.reader.width
        self.to_tags = nn.Linear(width, len(tags))
        self.finder = PredicateFinder(s, tokens) if s.finder_width else None

    def roles(self, x: Tensor, batch: TokenBatch, predicates: Tensor) -> Tensor:
        """Scores of the tags, (B, T, K), from token vectors (S, T, E)."""
        rows, positions = predicates.unbind(1)  # (B,) each
        h = self.encoder(x, batch.lengths)  # (S, T, 2H)
        h = self.dropout(self.tokens.beside(h, batch))  # (S, T, F)
        word, word_factor = self.of_words(h)[rows].chunk(2, -1)  # (B, T, M) each
        at = positions.clamp(min=0)  # a sentence without a predicate has no loss
        other, factor = self.of_predicates(h[rows, at]).unsqueeze(1).chunk(2, -1)  # (B, 1, M)
        steps = torch.arange(h.shape[1], device=at.device) - at[:, None]  # (B, T)
        distance = self.distance(steps.clamp(-FARTHEST, FARTHEST) + FARTHEST)  # (B, T, M)
        pairs = torch.relu(word + other + word_factor * factor + distance)  # (B, T, M)
        if self.reader is not None:
            read = self.reader(pairs, batch.lengths[rows.cpu()])  # (B, T, 2H)
            pairs = torch.cat([pairs, read], -1)  # (B, T, M + 2H)
        scores: Tensor = self.to_tags(self.dropout(pairs))  # (B, T, K)
        return scores
