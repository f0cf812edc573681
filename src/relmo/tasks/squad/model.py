"""BiDAF with self-attention, after Clark and Gardner (2017).

    question (B, S), context (B, T) -> [static; letters; ELMo] -> one biGRU -> [h; ELMo']
    context beside its attention over the question -> ReLU                       (B, T, F)
    + biGRU -> the context beside its attention over itself -> ReLU              (B, T, F)
    -> biGRU -> starts (B, T);  [·; biGRU] -> biGRU -> ends (B, T)

The probability of a span is that of its start times that of its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from relmo.config import Count, DropoutRate, Settings
from relmo.nn.blocks.attention import FAR_BELOW, Trilinear, masked_softmax
from relmo.nn.blocks.encoder import RecurrentEncoder, VariationalDropout
from relmo.tasks.inputs import TokenBatch, TokenInput


@dataclass(frozen=True, kw_only=True)
class SquadSettings(Settings):
    """Settings of the model."""

    cell_width: Count = 90
    """Cells in each direction of every GRU."""
    hidden_width: Count = 180
    """F, width of the layers after each attention."""
    dropout: DropoutRate = 0.2
    """Before each GRU, attention and layer, the same features at all tokens of a text."""
    max_span: Count = 17
    """Maximum length of a predicted answer in tokens; training has no limit."""
    all_occurrences: bool = True
    """Learn from every occurrence of an answer's words, not only from the annotated one."""


class SpanEnds(NamedTuple):
    """Log-probabilities of where an answer starts and ends; -inf at padding."""

    starts: Tensor
    """(B, T) float32."""
    ends: Tensor
    """(B, T) float32, of the last token itself."""


class SquadModel(nn.Module):
    """Finds the answer to a question in a context; the same layers read both."""

    def __init__(self, settings: SquadSettings, tokens: TokenInput) -> None:
        super().__init__()
        s = self.settings = settings
        self.tokens = tokens
        self.encoder = RecurrentEncoder(tokens.width, s.cell_width, dropout=s.dropout, kind="gru")
        width = self.encoder.width + tokens.extra_width
        self.attention = BiAttention(width, s.hidden_width, s.dropout)
        self.self_attention = SelfAttention(s.hidden_width, s.cell_width, s.dropout)
        self.starts = _Scores(s.hidden_width, s.cell_width, s.dropout)
        self.ends = _Scores(s.hidden_width + self.starts.encoder.width, s.cell_width, s.dropout)

    def forward(self, question: TokenBatch, context: TokenBatch) -> SpanEnds:
        """Where the answers start and end; a context without tokens has no answer."""
        lengths, mask = context.lengths, context.mask
        q, h = self._encode(question), self._encode(context)  # (B, S, ·), (B, T, ·)
        h = self.attention(h, mask, q, question.mask)  # (B, T, F)
        h = h + self.self_attention(h, mask, lengths)  # (B, T, F)
        features, starts = self.starts(h, lengths)  # (B, T, 2H), (B, T)
        _, ends = self.ends(torch.cat([h, features], -1), lengths)  # (B, T)
        both = (scores.masked_fill(~mask, float("-inf")) for scores in (starts, ends))
        return SpanEnds(*(scores.log_softmax(-1) for scores in both))

    def loss(
        self, question: TokenBatch, context: TokenBatch, spans: Tensor, is_span: Tensor
    ) -> Tensor:
        """Mean -log p of a question's spans together, plus the penalty of the mixes.

        Args:
            question: (B, S) tokens.
            context: (B, T) tokens.
            spans: (B, N, 2) first and last tokens of answers, any of which is correct.
            is_span: (B, N) false at padding. Every question has at least one span.
        """
        losses = marginal_loss(self(question, context), spans, is_span)  # (B,)
        return losses.mean() + self.tokens.penalty()

    def decode(self, question: TokenBatch, context: TokenBatch) -> list[tuple[int, int]]:
        """First and last token of each question's best answer."""
        spans = best_spans(self(question, context), self.settings.max_span)
        return [(first, last) for first, last in spans.tolist()]

    def _encode(self, batch: TokenBatch) -> Tensor:
        h = self.encoder(self.tokens(batch), batch.lengths)  # (B, T, 2H)
        return self.tokens.beside(h, batch)  # (B, T, ·)


class BiAttention(nn.Module):
    """Attention both ways: context (B, T, D) and question (B, S, D) -> (B, T, F).

    Dropout is variational, on the compared vectors and before the layer.
    """

    def __init__(self, width: int, output_width: int, dropout: float) -> None:
        super().__init__()
        self.similarity = Trilinear(width)
        self.layer = nn.Linear(4 * width, output_width)
        self.dropout = VariationalDropout(dropout)

    def forward(self, h: Tensor, mask: Tensor, q: Tensor, question_mask: Tensor) -> Tensor:
        """The context's tokens h with their attention over the question q."""
        h, q = self.dropout(h), self.dropout(q)
        scores = self.similarity(h, q)  # (B, T, S)
        asked = masked_softmax(scores, question_mask[:, None]) @ q  # (B, T, D)
        nearest = scores.masked_fill(~question_mask[:, None], FAR_BELOW).amax(-1)  # (B, T)
        gist = masked_softmax(nearest, mask)[:, None] @ h  # (B, 1, D)
        both = torch.cat([h, asked, h * asked, gist * asked], -1)  # (B, T, 4D)
        return torch.relu(self.layer(self.dropout(both)))  # (B, T, F)


class SelfAttention(nn.Module):
    """Attention of each token over the other tokens of its context: (B, T, F) -> (B, T, F).

    Dropout is variational, before the biGRU, on the compared vectors and before the layer.
    """

    def __init__(self, width: int, cell_width: int, dropout: float) -> None:
        super().__init__()
        self.encoder = RecurrentEncoder(width, cell_width, dropout=dropout, kind="gru")
        self.similarity = Trilinear(self.encoder.width)
        self.layer = nn.Linear(3 * self.encoder.width, width)
        self.dropout = VariationalDropout(dropout)

    def forward(self, x: Tensor, mask: Tensor, lengths: Tensor) -> Tensor:
        """What is added to x."""
        h = self.dropout(self.encoder(x, lengths))  # (B, T, 2H)
        itself = torch.eye(x.shape[1], dtype=torch.bool, device=x.device)  # (T, T)
        others = mask[:, None] & ~itself  # (B, T, T)
        found = masked_softmax(self.similarity(h, h), others) @ h  # (B, T, 2H)
        both = torch.cat([h, found, h * found], -1)  # (B, T, 6H)
        return torch.relu(self.layer(self.dropout(both)))  # (B, T, F)


def marginal_loss(ends: SpanEnds, spans: Tensor, is_span: Tensor) -> Tensor:
    """-log p, (B,), of all spans (B, N, 2) of a question together, where is_span (B, N) is true."""
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
    """A biGRU and a score per token: (B, T, F) -> features (B, T, 2H), scores (B, T)."""

    def __init__(self, width: int, cell_width: int, dropout: float) -> None:
        super().__init__()
        self.encoder = RecurrentEncoder(width, cell_width, dropout=dropout, kind="gru")
        self.dropout = VariationalDropout(dropout)
        self.layer = nn.Linear(self.encoder.width, 1)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Features and scores."""
        h = self.encoder(x, lengths)  # (B, T, 2H)
        with torch.autocast(x.device.type, enabled=False):  # bfloat16 would give ties
            scores = self.layer(self.dropout(h).float()).squeeze(-1)  # (B, T)
        return h, scores
