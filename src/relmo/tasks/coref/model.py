"""Span ranking: tokens -> all spans -> those that may be mentions -> their antecedents.

    sentences (B, T) -> [static; letters; ELMo] (N, E) -> biLSTM per sentence (N, 2H)
    -> mention scores of all spans (N, W) -> the best S, none crossing -> antecedents (S, A)

N tokens of one document, W the greatest width of a span. After Lee et al. (2017), "End-to-end
neural coreference resolution"; antecedents.py has the second half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from relmo.errors import ConfigError
from relmo.nn.blocks.encoder import Encoder
from relmo.nn.blocks.spans import SpanLayer, best_spans, heads_of, spans_within
from relmo.tasks.coref.antecedents import (
    Antecedents,
    clusters_of,
    hidden_layers,
    marginal_loss,
)
from relmo.tasks.coref.data import Cluster
from relmo.tasks.inputs import TokenBatch, TokenInput
from relmo.train.trainer import check_whole

SINGLETONS = ("auto", "keep", "drop")
LEAST = {
    "cell_width": 1, "num_layers": 1, "hidden_width": 1, "feature_width": 1, "max_width": 1,
    "max_antecedents": 1,
}  # fmt: skip
"""Settings that are whole numbers, and from where on."""


@dataclass(frozen=True, kw_only=True)
class CorefSettings:
    """The model's shape."""

    cell_width: int = 200
    num_layers: int = 1
    dropout: float = 0.4
    """Before each layer of the encoder, and after it."""
    hidden_width: int = 150
    """Of the two hidden layers of mention scores and of antecedents' scores."""
    hidden_dropout: float = 0.2
    feature_width: int = 20
    """Of the vectors of a span's width, of a distance and of a genre."""
    max_width: int = 30
    """Tokens of a span; wider mentions are never found."""
    spans_per_token: float = 0.4
    """Spans that are looked at as mentions."""
    max_antecedents: int = 50
    mention_weight: float = 1.0
    """Of the loss by which mention scores learn from the mentions themselves; at 0 they learn from
    links alone, as in the paper."""
    singletons: Literal["auto", "keep", "drop"] = "auto"
    """Whether a mention may be alone in its cluster; by the training data unless said."""

    def __post_init__(self) -> None:
        if self.singletons not in SINGLETONS:
            raise ConfigError(
                f"singletons is {self.singletons!r}; choose one of {', '.join(SINGLETONS)}"
            )
        check_whole(self, LEAST)
        for name in ("dropout", "hidden_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; a share below 1 is needed")
        if not self.spans_per_token > 0:
            raise ConfigError(f"spans_per_token is {self.spans_per_token}; it must be above 0")
        if self.mention_weight < 0:
            raise ConfigError(f"mention_weight is {self.mention_weight}; it cannot be negative")


class Ranking(NamedTuple):
    """What the model makes of a document."""

    mentions: Tensor
    """(N, W) scores of all spans, float32: above 0 it is a mention."""
    fits: Tensor
    """(N, W) true where the span stays in its sentence."""
    first: Tensor
    """(S,) first token of each span that was kept."""
    last: Tensor
    """(S,) its last token."""
    antecedents: Tensor
    """(S, A) numbers of earlier spans that were kept."""
    scores: Tensor
    """(S, A) of these, float32; -inf where there is none. Having none has score 0."""


class CorefModel(nn.Module):
    """Finds the mentions of a document and which of them mean the same.

    Args:
        settings: the shape.
        tokens: makes token vectors.
        num_genres: of documents.
        keeps_singletons: whether mentions stand alone where nothing is linked with them.
    """

    def __init__(
        self, settings: CorefSettings, tokens: TokenInput, num_genres: int, keeps_singletons: bool
    ) -> None:
        super().__init__()
        if keeps_singletons and not settings.mention_weight:
            raise ConfigError(
                "mentions alone in their clusters are learned from themselves: give mention_weight "
                "above 0, or singletons='drop'"
            )
        self.settings, self.tokens, self.keeps_singletons = settings, tokens, keeps_singletons
        s = settings
        self.encoder = Encoder(tokens.width, s.cell_width, s.num_layers, s.dropout)
        self.dropout = nn.Dropout(s.dropout)
        end_width = self.encoder.width + tokens.extra_width
        self.attention = nn.Linear(end_width, 1)
        self.widths = nn.Embedding(s.max_width, s.feature_width)
        self.mention_layer = SpanLayer(end_width, tokens.width, s.feature_width, s.hidden_width)
        self.mention_top = hidden_layers(s.hidden_width, s.hidden_dropout)
        width = 2 * end_width + tokens.width + s.feature_width
        self.antecedents = Antecedents(
            width, s.hidden_width, s.feature_width, num_genres, s.max_antecedents, s.hidden_dropout
        )

    def forward(self, batch: TokenBatch, genre: Tensor) -> Ranking:
        """Rank the antecedents of a document whose sentences are the batch."""
        x, h = self._read(batch)  # (N, E), (N, F)
        B = len(batch.mask)
        rows = torch.arange(B, device=h.device)[:, None].expand(batch.mask.shape)
        fits = spans_within(rows[batch.mask], self.settings.max_width)  # (N, W)
        attention = self.attention(h).squeeze(1)  # (N,)
        hidden = self.mention_layer(h, x, attention, self.widths.weight, fits)  # (N, W, ·)
        mentions = self.mention_top(hidden).squeeze(2).float()  # (N, W)
        first, last = self._keep(mentions, fits)  # (S,)
        head = heads_of(x, attention, first, last, self.settings.max_width)  # (S, E)
        g = torch.cat([h[first], h[last], head, self.widths(last - first)], 1)  # (S, G)
        antecedents, scores = self.antecedents(g, mentions[first, last - first], genre)  # (S, A)
        return Ranking(mentions, fits, first, last, antecedents, scores)

    def loss(self, batch: TokenBatch, genre: Tensor, groups: Tensor) -> Tensor:
        """Mean loss of the spans that are kept, and the mixes' penalty.

        Args:
            batch: sentences of a document.
            genre: () its number.
            groups: (N, W) number of the cluster that a span is a mention of; 0 is no mention.
        """
        found = self(batch, genre)
        group = groups[found.first, found.last - found.first]  # (S,)
        is_right = (group[found.antecedents] == group[:, None]) & (group > 0)[:, None]  # (S, A)
        is_right &= found.scores > float("-inf")
        links = marginal_loss(found.scores, is_right).mean()
        wanted = (groups > 0).float()
        errors = binary_cross_entropy_with_logits(found.mentions, wanted, reduction="none")
        mentions = (errors * found.fits).sum() / len(group)
        total: Tensor = links + self.settings.mention_weight * mentions + self.tokens.penalty()
        return total

    def decode(self, batch: TokenBatch, genre: Tensor) -> tuple[Cluster, ...]:
        """The clusters of a document."""
        found = self(batch, genre)
        score, place = found.scores.max(1)  # (S,)
        link = found.antecedents.gather(1, place[:, None]).squeeze(1)
        link = link.masked_fill(score <= 0, -1)
        is_mention = found.mentions[found.first, found.last - found.first] > 0
        spans = list(zip(found.first.tolist(), found.last.tolist(), strict=True))
        alone = (is_mention & self.keeps_singletons).tolist()
        return clusters_of(spans, link.tolist(), alone)

    def _read(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        """Vectors of all tokens in a row, before the encoder (N, E) and after it (N, F)."""
        row = _in_a_row(batch)
        x = self.tokens(row)  # (1, N, E)
        padded = x.new_zeros(*batch.mask.shape, x.shape[2])  # (B, T, E)
        padded[batch.mask] = x[0]
        h = self.encoder(padded, batch.lengths)[batch.mask]  # (N, 2H)
        h = self.dropout(self.tokens.beside(h.unsqueeze(0), row))  # (1, N, F)
        return x[0], h[0]

    def _keep(self, mentions: Tensor, fits: Tensor) -> tuple[Tensor, Tensor]:
        """First and last tokens (S,) of the best spans."""
        first, width = fits.nonzero(as_tuple=True)
        num_kept = math.ceil(self.settings.spans_per_token * len(fits))
        kept = best_spans(mentions[fits], first, first + width, num_kept)
        return first[kept], (first + width)[kept]


def _in_a_row(batch: TokenBatch) -> TokenBatch:
    """All tokens of the batch as one sentence: padding, of which documents have much, costs."""
    mask = batch.mask
    return TokenBatch(
        static=batch.static[mask].unsqueeze(0),
        letters=None if batch.letters is None else batch.letters[mask].unsqueeze(0),
        layers=None if batch.layers is None else batch.layers[:, mask].unsqueeze(1),
        mask=mask[mask].unsqueeze(0),
    )
