"""Roles of a predicate: token vectors and a mark -> a deep alternating LSTM -> BIO tags.

words (B, T) -> [static; letters; ELMo; mark] (B, T, E) -> 8 layers (B, T, H) -> tags (B, T, K)
             -> [static; letters; ELMo] (B, T, E) -> a small biLSTM -> is it a predicate? (B, T)

After He et al. (2017), "Deep semantic role labeling: what works and what's next".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from relmo.config import Count, CountOrZero, Depth, DropoutRate, Settings
from relmo.kernels.device import to_device
from relmo.nn.blocks.crf import viterbi
from relmo.nn.blocks.encoder import (
    RecurrentEncoder,
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

    reads: Literal["predicates", "sentences"] = "predicates"
    """A sentence once for each of its predicates, or once for all of them (srl/pairs.py)."""
    cell_width: Count = 300
    num_layers: Depth = 8
    dropout: DropoutRate = 0.1
    """After each layer, the same features at all tokens of a sentence."""
    mark_width: Count = 100
    """Width of the vector that marks the predicate; unused if sentences are read once."""
    pair_width: Count = 300
    """Width of what is made of a word and a predicate if sentences are read once."""
    pair_cells: CountOrZero = 0
    """Cells per direction of the biLSTM that reads these for each predicate; 0: none."""
    finder_width: CountOrZero = 0
    """Cells per direction of the biLSTM that finds predicates; 0: words are looked up in a list
    of the training part's predicates instead, as in runs of earlier versions."""


class RoleTagger(nn.Module):
    """What models of roles share: loss, decoding and a finder of predicates.

    A model reads S sentences with B predicates in all, each given as its sentence and its position
    in it: (B, 2).
    """

    steps: Tensor
    first: Tensor
    tokens: TokenInput
    finder: PredicateFinder | None

    def __init__(self, tags: Sequence[str]) -> None:
        super().__init__()
        allowed = torch.tensor(transitions_allowed(tags))  # (K + 2, K + 2)
        steps = torch.zeros(allowed.shape).masked_fill(~allowed, float("-inf"))
        self.register_buffer("steps", steps[:-2, :-2], persistent=False)  # (K, K)
        self.register_buffer("first", steps[-2, :-2], persistent=False)  # (K,)

    def roles(self, x: Tensor, batch: TokenBatch, predicates: Tensor) -> Tensor:
        """Scores of the tags, (B, T, K), from token vectors (S, T, E)."""
        raise NotImplementedError

    def forward(self, batch: TokenBatch, predicates: Tensor) -> Tensor:
        """Scores of the tags, (B, T, K), given the predicates (B, 2)."""
        return self.roles(self.tokens(batch), batch, predicates)

    def find(self, batch: TokenBatch) -> Tensor:
        """Log odds that a token is a predicate, (S, T); the model must have a finder."""
        assert self.finder is not None
        scores: Tensor = self.finder(self.tokens(batch), self.tokens, batch)  # (S, T)
        return scores

    def loss(
        self,
        batch: TokenBatch,
        predicates: Tensor,
        tags: Tensor,
        are_predicates: Tensor | None = None,
    ) -> Tensor:
        """Mean -log p of a token's tag, plus the penalty of the mixes and the finder's loss.

        Args:
            batch: of sentences.
            predicates: (B, 2) their sentences and positions; one with a negative position is that
                of a sentence without any, which has no loss of tags.
            tags: (B, T).
            are_predicates: (B, T) all predicates of the sentences, for a model with a finder.
        """
        rows, positions = predicates.unbind(1)  # (B,) each
        x = self.tokens(batch)  # (S, T, E)
        scores = self.roles(x, batch, predicates).float()  # (B, T, K)
        mask = batch.mask[rows]  # (B, T)
        has_tag = mask & (positions >= 0)[:, None]  # (B, T)
        wanted = tags.masked_fill(~has_tag, NO_TAG)  # (B, T)
        num_tokens = mask.sum().clamp(min=1)
        found = cross_entropy(
            scores.flatten(0, 1), wanted.flatten(), ignore_index=NO_TAG, reduction="sum"
        )
        loss = found / num_tokens + self.tokens.penalty()
        if self.finder is None or are_predicates is None:
            return loss
        odds = self.finder(x, self.tokens, batch).float()[rows]  # (B, T)
        missed = binary_cross_entropy_with_logits(
            odds, are_predicates.float(), mask.float(), reduction="sum"
        )
        return loss + missed / num_tokens

    def decode(self, batch: TokenBatch, predicates: Tensor) -> list[list[int]]:
        """The best tags for each predicate that BIO allows."""
        mask = batch.mask[predicates[:, 0]]  # (B, T)
        return viterbi(self(batch, predicates), mask, self.steps, self.first)


class SrlModel(RoleTagger):
    """Tags the arguments of one predicate of each sentence; the K tags are in BIO, by number."""

    def __init__(self, settings: SrlSettings, tokens: TokenInput, tags: Sequence[str]) -> None:
        super().__init__(tags)
        s, self.tokens = settings, tokens
        self.mark = nn.Embedding(2, s.mark_width)
        width = tokens.width + s.mark_width
        self.encoder = AlternatingLstm(width, s.cell_width, s.num_layers, s.dropout)
        self.to_tags = nn.Linear(s.cell_width + tokens.extra_width, len(tags))
        self.finder = PredicateFinder(s, tokens) if s.finder_width else None

    def roles(self, x: Tensor, batch: TokenBatch, predicates: Tensor) -> Tensor:
        """Scores of the tags, (B, T, K); sentence b must be that of predicate b."""
        T, positions = batch.mask.shape[1], predicates[:, 1]  # (B,)
        is_predicate = torch.arange(T, device=x.device) == positions[:, None]  # (B, T)
        marked = torch.cat([x, self.mark(is_predicate.long())], -1)  # (B, T, E + mark)
        h = self.encoder(marked, batch.lengths)  # (B, T, H)
        scores: Tensor = self.to_tags(self.tokens.beside(h, batch))  # (B, T, K)
        return scores


class PredicateFinder(nn.Module):
    """Finds the predicates of a sentence: log odds for each token, from the vectors of all.

    It does not change the vectors it reads: those are trained for the roles alone.
    """

    def __init__(self, settings: SrlSettings, tokens: TokenInput) -> None:
        super().__init__()
        s = settings
        self.encoder = RecurrentEncoder(tokens.width, s.finder_width, dropout=s.dropout)
        self.to_odds = nn.Linear(self.encoder.width + tokens.extra_width, 1)

    def forward(self, x: Tensor, tokens: TokenInput, batch: TokenBatch) -> Tensor:
        """Log odds, (B, T), of a batch whose token vectors are x, (B, T, E)."""
        h = self.encoder(x.detach(), batch.lengths)  # (B, T, 2H)
        with torch.no_grad():
            elmo = tokens.beside(h[..., :0], batch)  # (B, T, ·), what stands beside h
        odds: Tensor = self.to_odds(torch.cat([h, elmo], -1)).squeeze(-1)  # (B, T)
        return odds


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
