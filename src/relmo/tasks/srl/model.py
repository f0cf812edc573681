"""Roles of a predicate: token vectors and a mark -> a deep alternating LSTM -> BIO tags.

words (B, T) -> [static; letters; ELMo; mark] (B, T, E) -> 8 layers (B, T, H) -> tags (B, T, K)

After He et al. (2017), "Deep semantic role labeling: what works and what's next".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relmo.config import Count, Depth, DropoutRate, Settings
from relmo.kernels.device import to_device
from relmo.nn.blocks.crf import viterbi
from relmo.nn.blocks.encoder import (
    TokenOrder,
    VariationalDropout,
    initialize_recurrent,
    put,
    take,
    token_order,
)
from relmo.tasks.chunk_tags import transitions_allowed
from relmo.tasks.inputs import TokenBatch, TokenInput

NO_TAG = -100
"""Number of the tag at padding, which has no loss."""


@dataclass(frozen=True, kw_only=True)
class SrlSettings(Settings):
    """Settings of the tagger."""

    cell_width: Count = 300
    num_layers: Depth = 8
    dropout: DropoutRate = 0.1
    """After each layer, the same features at all tokens of a sentence."""
    mark_width: Count = 100
    """Width of the vector that marks the predicate."""


class SrlModel(nn.Module):
    """Tags the arguments of one predicate of each sentence; the K tags are in BIO, by number."""

    steps: Tensor
    first: Tensor

    def __init__(self, settings: SrlSettings, tokens: TokenInput, tags: Sequence[str]) -> None:
        super().__init__()
        s, self.tokens = settings, tokens
        self.mark = nn.Embedding(2, s.mark_width)
        width = tokens.width + s.mark_width
        self.encoder = AlternatingLstm(width, s.cell_width, s.num_layers, s.dropout)
        self.to_tags = nn.Linear(s.cell_width + tokens.extra_width, len(tags))
        allowed = torch.tensor(transitions_allowed(tags))  # (K + 2, K + 2)
        steps = torch.zeros(allowed.shape).masked_fill(~allowed, float("-inf"))
        self.register_buffer("steps", steps[:-2, :-2], persistent=False)  # (K, K)
        self.register_buffer("first", steps[-2, :-2], persistent=False)  # (K,)

    def forward(self, batch: TokenBatch, predicates: Tensor) -> Tensor:
        """Scores of the tags, (B, T, K), given the positions (B,) of the predicates."""
        T = batch.mask.shape[1]
        is_predicate = torch.arange(T, device=predicates.device) == predicates[:, None]  # (B, T)
        x = torch.cat([self.tokens(batch), self.mark(is_predicate.long())], -1)  # (B, T, E)
        h = self.encoder(x, batch.lengths)  # (B, T, H)
        scores: Tensor = self.to_tags(self.tokens.beside(h, batch))  # (B, T, K)
        return scores

    def loss(self, batch: TokenBatch, predicates: Tensor, tags: Tensor) -> Tensor:
        """Mean -log p of a token's tag, tags (B, T), plus the penalty of the mixes."""
        scores = self(batch, predicates).float()  # (B, T, K)
        wanted = tags.masked_fill(~batch.mask, NO_TAG)  # (B, T)
        found = cross_entropy(scores.flatten(0, 1), wanted.flatten(), ignore_index=NO_TAG)
        return found + self.tokens.penalty()

    def decode(self, batch: TokenBatch, predicates: Tensor) -> list[list[int]]:
        """The best tags of each sentence that BIO allows."""
        return viterbi(self(batch, predicates), batch.mask, self.steps, self.first)


class AlternatingLstm(nn.Module):
    """Layers that alternate between left-to-right and right-to-left: (B, T, E) -> (B, T, H).

    The first layer reads from left to right. Dropout follows each layer, on the same features at
    all tokens of a sentence.
    """

    def __init__(self, width: int, cell_width: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        widths = [width, *[cell_width] * (num_layers - 1)]
        self.layers = nn.ModuleList(HighwayLstm(w, cell_width) for w in widths)
        self.dropout = VariationalDropout(dropout)
        self.width = cell_width

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Encode sentences; row b has lengths[b] tokens, and lengths (B,) are on the CPU."""
        B, T, _ = x.shape
        order = token_order(lengths, T, x.device)
        ahead = to_device(order.ahead, x.device)  # (N,)
        number = torch.empty(B * T, dtype=torch.long)  # (B T,) rank of the token at each place
        number[order.ahead] = torch.arange(len(order.ahead))
        mirror = to_device(number[order.behind], x.device)  # (N,) rank of the mirrored token
        row = ahead // T  # (N,)
        tokens = take(x, ahead)  # (N, E)
        for layer in self.layers:
            h = layer(tokens, order)  # (N, H)
            kept = self.dropout(h.new_ones(B, 1, self.width)).squeeze(1)  # (B, H)
            # (N, H), turned for the next layer, which reads the other way
            tokens = (h * kept[row]).index_select(0, mirror)
        if len(self.layers) % 2:
            tokens = tokens.index_select(0, mirror)
        return put(tokens, ahead, B, T)  # (B, T, H)


class HighwayLstm(nn.Module):
    """An LSTM with a highway around it: r * lstm(x) + (1 - r) * W x, r = sigmoid(V x + b).

    In He et al., r_t also depends on h_{t-1}, and the mixed, dropped-out h_t feeds the next step,
    which needs a loop over tokens. Here the recurrence is the plain LSTM's, which runs as one
    kernel; gates and dropout are computed for all tokens at once after it, so r_t depends on
    neighboring tokens through x_t alone, which contains them from the second layer on.
    """

    def __init__(self, width: int, cell_width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, cell_width)
        self.gate = nn.Linear(width, cell_width)
        self.around = nn.Linear(width, cell_width, bias=False)
        initialize_recurrent(self.lstm)
        nn.init.orthogonal_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)
        nn.init.orthogonal_(self.around.weight)

    def forward(self, tokens: Tensor, order: TokenOrder) -> Tensor:
        """Encode all tokens in their order: (N, E) -> (N, H)."""
        h = order.read(self.lstm, tokens)  # (N, H)
        r = torch.sigmoid(self.gate(tokens).float())  # (N, H)
        mixed: Tensor = r * h + (1 - r) * self.around(tokens)  # (N, H)
        return mixed
