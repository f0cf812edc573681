"""BiDAF with self-attention, after Clark and Gardner (2017).

    question (B, S), context (B, T) -> [static; letters; ELMo] -> one biGRU -> [h; ELMo']
    context beside what the question says of each token -> ReLU                  (B, T, F)
    + biGRU -> the context beside what it says of itself -> ReLU                 (B, T, F)
    -> biGRU -> starts (B, T);  [·; biGRU] -> biGRU -> ends (B, T)

A span's probability is that of its start times that of its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from relmo.errors import ConfigError
from relmo.nn.blocks.attention import FAR_BELOW, masked_softmax
from relmo.nn.blocks.encoder import Encoder, VariationalDropout
from relmo.nn.blocks.trilinear import Trilinear
from relmo.tasks.inputs import TokenBatch, TokenInput


@dataclass(frozen=True, kw_only=True)
class SquadSettings:
    """The reader's shape."""

    cell_width: int = 90
    """Of each direction of every GRU."""
    hidden_width: int = 180
    """F, of the layers after each attention."""
    dropout: float = 0.2
    """Before each GRU, attention and layer, the same features for all tokens of a text."""
    max_span: int = 17
    """Tokens of the longest answer that is given; training looks at longer ones too."""
    all_occurrences: bool = True
    """Learn from every place where an answer's words stand, not from the one that is marked."""

    def __post_init__(self) -> None:
        for name in ("cell_width", "hidden_width", "max_span"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; at least 1 is needed")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout is {self.dropout}; a share below 1 is needed")


class SpanEnds(NamedTuple):
    """Log-probabilities of where an answer starts and ends; -inf where no token stands."""

    starts: Tensor
    """(B, T) float32."""
    ends: Tensor
    """(B, T) float32, of the last token itself."""


class SquadModel(nn.Module):
    """Finds the answer to a question in a context.

    Args:
        settings: the shape.
        tokens: makes token vectors, of questions and contexts alike.
    """

    def __init__(self, settings: SquadSettings, tokens: TokenInput) -> None:
        super().__init__()
        s = self.settings = settings
        self.tokens = tokens
        self.encoder = Encoder(tokens.width, s.cell_width, dropout=s.dropout, kind="gru")
        width = self.encoder.width + tokens.extra_width
        self.attention = BiAttention(width, s.hidden_width, s.dropout)
        self.self_attention = SelfAttention(s.hidden_width, s.cell_width, s.dropout)
        self.starts = _Scores(s.hidden_width, s.cell_width, s.dropout)
        after = s.hidden_width + self.starts.encoder.width
        self.ends = _Scores(after, s.cell_width, s.dropout)

    def forward(self, question: TokenBatch, context: TokenBatch) -> SpanEnds:
        """Where the answers may start and end; a context without tokens has no answer."""
        lengths, mask = context.lengths, context.mask
        q = self._encode(question, question.lengths)  # (B, S, ·)
        h = self._encode(context, lengths)  # (B, T, ·)
        h = self.attention(h, mask, q, question.mask)  # (B, T, F)
        h = h + self.self_attention(h, mask, lengths)
        features, starts = self.starts(h, lengths)  # (B, T, 2H), (B, T)
        _, ends = self.ends(torch.cat([h, features], -1), lengths)
        return SpanEnds(_log_shares(starts, mask), _log_shares(ends, mask))

    def loss(
        self, question: TokenBatch, context: TokenBatch, spans: Tensor, is_span: Tensor
    ) -> Tensor:
        """Mean -log p of a question's spans together, and the mixes' penalty.

        Args:
            question: (B, S) tokens.
            context: (B, T) tokens.
            spans: (B, N, 2) first and last tokens of answers, any of which is right.
            is_span: (B, N) bool; the rest fills up. Every question has one.
        """
        losses = marginal_loss(self(question, context), spans, is_span)  # (B,)
        return losses.mean() + self.tokens.penalty()

    def decode(self, question: TokenBatch, context: TokenBatch) -> list[tuple[int, int]]:
        """First and last token of each question's best answer."""
        spans = best_spans(self(question, context), self.settings.max_span)
        return [(first, last) for first, last in spans.tolist()]

    def _encode(self, batch: TokenBatch, lengths: Tensor) -> Tensor:
        h = self.encoder(self.tokens(batch), lengths)  # (B, T, 2H)
        return self.tokens.beside(h, batch)


class BiAttention(nn.Module):
    """Attention both ways: context (B, T, D) and question (B, S, D) -> (B, T, F).

    Args:
        width: D.
        output_width: F.
        dropout: variational, on what is compared and before the layer.
    """

    def __init__(self, width: int, output_width: int, dropout: float) -> None:
        super().__init__()
        self.similarity = Trilinear(width)
        self.layer = nn.Linear(4 * width, output_width)
        self.dropout = VariationalDropout(dropout)

    def forward(self, h: Tensor, mask: Tensor, q: Tensor, question_mask: Tensor) -> Tensor:
        """The context's tokens h, knowing of the question q."""
        h, q = self.dropout(h), self.dropout(q)
        scores = self.similarity(h, q)  # (B, T, S)
        asked = masked_softmax(scores, question_mask[:, None]) @ q  # (B, T, D)
        nearest = scores.masked_fill(~question_mask[:, None], FAR_BELOW).amax(-1)  # (B, T)
        gist = masked_softmax(nearest, mask)[:, None] @ h  # (B, 1, D)
        both = torch.cat([h, asked, h * asked, gist * asked], -1)  # (B, T, 4D)
        return torch.relu(self.layer(self.dropout(both)))


class SelfAttention(nn.Module):
    """What a context says of each of its tokens elsewhere: (B, T, F) -> (B, T, F).

    Args:
        width: F.
        cell_width: of the biGRU that reads first.
        dropout: variational, before the biGRU, on what is compared and before the layer.
    """

    def __init__(self, width: int, cell_width: int, dropout: float) -> None:
        super().__init__()
        self.encoder = Encoder(width, cell_width, dropout=dropout, kind="gru")
        self.similarity = Trilinear(self.encoder.width)
        self.layer = nn.Linear(3 * self.encoder.width, width)
        self.dropout = VariationalDropout(dropout)

    def forward(self, x: Tensor, mask: Tensor, lengths: Tensor) -> Tensor:
        """To be added to x."""
        h = self.dropout(self.encoder(x, lengths))  # (B, T, 2H)
        itself = torch.eye(x.shape[1], dtype=torch.bool, device=x.device)  # (T, T)
        others = mask[:, None] & ~itself  # (B, T, T)
        found = masked_softmax(self.similarity(h, h), others) @ h  # (B, T, 2H)
        both = torch.cat([h, found, h * found], -1)  # (B, T, 6H)
        return torch.relu(self.layer(self.dropout(both)))


def marginal_loss(ends: SpanEnds, spans: Tensor, is_span: Tensor) -> Tensor:
    """-log p, (B,), of all spans of a question together: (B, N, 2), those that is_span (B, N)."""
    log_p = ends.starts.gather(1, spans[..., 0]) + ends.ends.gather(1, spans[..., 1])  # (B, N)
    return -log_p.masked_fill(~is_span, float("-inf")).logsumexp(1)


def best_spans(ends: SpanEnds, max_span: int) -> Tensor:
    """(B, 2) first and last token of the most probable span of at most max_span tokens."""
    starts = ends.starts  # (B, T)
    past = nn.functional.pad(ends.ends, (0, max_span - 1), value=float("-inf"))
    near = past.unfold(1, max_span, 1)  # (B, T, max_span), ends from each start on
    best = (starts[..., None] + near).flatten(1).argmax(1)  # (B,)
    first = best // max_span
    return torch.stack([first, first + best % max_span], 1)


class _Scores(nn.Module):
    """Reads once more and scores each token: (B, T, F) -> features (B, T, 2H), scores (B, T)."""

    def __init__(self, width: int, cell_width: int, dropout: float) -> None:
        super().__init__()
        self.encoder = Encoder(width, cell_width, dropout=dropout, kind="gru")
        self.dropout = VariationalDropout(dropout)
        self.layer = nn.Linear(self.encoder.width, 1)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Features and scores."""
        h = self.encoder(x, lengths)  # (B, T, 2H)
        with torch.autocast(x.device.type, enabled=False):  # 8 bits would make unlike spans equal
            scores = self.layer(self.dropout(h).float()).squeeze(-1)  # (B, T)
        return h, scores


def _log_shares(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, float("-inf")).log_softmax(-1)  # (B, T)
