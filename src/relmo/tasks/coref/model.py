"""Span ranking: tokens -> all spans -> candidate mentions -> their antecedents.

    sentences (B, T) -> [static; letters; ELMo] (N, E) -> biLSTM per sentence (N, 2H)
    -> mention scores of all spans (N, W) -> the best S, none crossing -> antecedents (S, A)

    s(i, j) = mention(i) + mention(j) + rough(i, j) + fine(i, j);     s(i, none) = 0

N tokens of one document, W maximum width of a span, S spans in text order, A antecedents per span,
G width of a span's vector. After Lee et al. (2017), "End-to-end neural coreference resolution". The
rough score is that of Lee et al. (2018), bilinear plus a distance term: one product scores all
pairs and finds antecedents beyond the nearest A spans.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, embedding

from relmo.config import Count, Depth, DropoutRate, NonNegative, Positive, Settings
from relmo.errors import ConfigError
from relmo.nn.blocks.encoder import RecurrentEncoder
from relmo.nn.blocks.spans import SpanLayer, best_spans, heads_of, spans_within
from relmo.tasks.coref.data import Cluster, Mention
from relmo.tasks.inputs import TokenBatch, TokenInput

DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)
"""Lower bounds of the distance buckets, in spans; bucket 0 is below the first."""


@dataclass(frozen=True, kw_only=True)
class CorefSettings(Settings):
    """Settings of the model."""

    cell_width: Count = 200
    num_layers: Depth = 1
    dropout: DropoutRate = 0.4
    """Before each layer of the encoder, and after it."""
    hidden_width: Count = 150
    """Width of the two hidden layers of mention scores and of antecedent scores."""
    hidden_dropout: DropoutRate = 0.2
    feature_width: Count = 20
    """Width of the embeddings of a span's width, of a distance and of a genre."""
    max_width: Count = 30
    """Maximum tokens of a span; wider mentions are never found."""
    spans_per_token: Positive = 0.4
    """Number of spans kept as candidate mentions, per token."""
    max_antecedents: Count = 50
    mention_weight: NonNegative = 1.0
    """Weight of the loss of mention scores against the gold mentions; at 0 they learn from links
    alone, as in the paper."""
    singletons: Literal["auto", "keep", "drop"] = "auto"
    """Whether a mention may be alone in its cluster; "auto" follows the training data."""


class Ranking(NamedTuple):
    """The candidate mentions of a document and their antecedents."""

    mentions: Tensor
    """(N, W) scores of all spans, float32; a span with a score above 0 is a mention."""
    fits: Tensor
    """(N, W) whether the span stays within its sentence."""
    first: Tensor
    """(S,) first token of each kept span."""
    last: Tensor
    """(S,) its last token."""
    antecedents: Tensor
    """(S, A) indices of earlier kept spans."""
    scores: Tensor
    """(S, A) scores of these, float32; -inf where there is none. No antecedent has score 0."""


class CorefModel(nn.Module):
    """Finds the mentions of a document and clusters those that corefer.

    With `keeps_singletons`, a mention without links is a cluster of its own.
    """

    def __init__(
        self, settings: CorefSettings, tokens: TokenInput, num_genres: int, keeps_singletons: bool
    ) -> None:
        super().__init__()
        if keeps_singletons and not settings.mention_weight:
            raise ConfigError(
                "singletons are learned from the loss of mentions: set mention_weight above 0, or "
                "singletons='drop'"
            )
        self.settings, self.tokens, self.keeps_singletons = settings, tokens, keeps_singletons
        s = settings
        self.encoder = RecurrentEncoder(tokens.width, s.cell_width, s.num_layers, s.dropout)
        self.dropout = nn.Dropout(s.dropout)
        end_width = self.encoder.width + tokens.extra_width
        self.attention = nn.Linear(end_width, 1)
        self.widths = nn.Embedding(s.max_width, s.feature_width)
        self.mention_layer = SpanLayer(end_width, tokens.width, s.feature_width, s.hidden_width)
        self.mention_top = hidden_layers(s.hidden_width, s.hidden_dropout)
        width = 2 * end_width + tokens.width + s.feature_width
        self.antecedents = Antecedents(width, num_genres, s)

    def forward(self, batch: TokenBatch, genre: Tensor) -> Ranking:
        """Rank the antecedents in a document whose sentences are the batch."""
        x, h = self._read(batch)  # (N, E), (N, F)
        sentence_of = batch.mask.nonzero()[:, 0]  # (N,)
        fits = spans_within(sentence_of, self.settings.max_width)  # (N, W)
        attention = self.attention(h).squeeze(1)  # (N,)
        hidden = self.mention_layer(h, x, attention, self.widths.weight, fits)  # (N, W, ·)
        mentions = self.mention_top(hidden).squeeze(2).float()  # (N, W)
        first, width = fits.nonzero(as_tuple=True)  # all spans
        num_kept = math.ceil(self.settings.spans_per_token * len(fits))
        kept = best_spans(mentions[fits], first, first + width, num_kept)  # (S,)
        first, last = first[kept], (first + width)[kept]  # (S,), (S,)
        head = heads_of(x, attention, first, last, self.settings.max_width)  # (S, E)
        g = torch.cat([h[first], h[last], head, self.widths(last - first)], 1)  # (S, G)
        antecedents, scores = self.antecedents(g, mentions[first, last - first], genre)  # (S, A)
        return Ranking(mentions, fits, first, last, antecedents, scores)

    def loss(self, batch: TokenBatch, genre: Tensor, groups: Tensor) -> Tensor:
        """Mean loss of the kept spans, plus the penalty of the mixes.

        Args:
            batch: sentences of a document.
            genre: () number of the document's genre.
            groups: (N, W) number of each span's cluster; 0 is not a mention.
        """
        found = self(batch, genre)
        group = groups[found.first, found.last - found.first]  # (S,)
        is_right = (group[found.antecedents] == group[:, None]) & (group > 0)[:, None]  # (S, A)
        is_right &= found.scores > float("-inf")
        links = marginal_loss(found.scores, is_right).mean()
        wanted = (groups > 0).float()  # (N, W)
        errors = binary_cross_entropy_with_logits(found.mentions, wanted, reduction="none")
        mentions = (errors * found.fits).sum() / len(group)
        total: Tensor = links + self.settings.mention_weight * mentions + self.tokens.penalty()
        return total

    def decode(self, batch: TokenBatch, genre: Tensor) -> tuple[Cluster, ...]:
        """The clusters of a document."""
        return self.clusters(self(batch, genre))

    def clusters(self, found: Ranking) -> tuple[Cluster, ...]:
        """The clusters that the best antecedents form."""
        score, place = found.scores.max(1)  # (S,)
        link = found.antecedents.gather(1, place[:, None]).squeeze(1)  # (S,)
        link = link.masked_fill(score <= 0, -1)
        is_mention = found.mentions[found.first, found.last - found.first] > 0  # (S,)
        spans = list(zip(found.first.tolist(), found.last.tolist(), strict=True))
        alone = (is_mention & self.keeps_singletons).tolist()
        return clusters_of(spans, link.tolist(), alone)

    def _read(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        """Vectors of all tokens, before the encoder (N, E) and after it (N, F)."""
        mask = batch.mask
        row = (
            TokenBatch(  # all tokens as one sentence: documents have much padding, which costs time
                static=batch.static[mask].unsqueeze(0),
                letters=None if batch.letters is None else batch.letters[mask].unsqueeze(0),
                layers=None if batch.layers is None else batch.layers[:, mask].unsqueeze(1),
                mask=mask[mask].unsqueeze(0),
                output=None if batch.output is None else batch.output[mask].unsqueeze(0),
            )
        )
        x = self.tokens(row)  # (1, N, E)
        padded = x.new_zeros(*mask.shape, x.shape[2])  # (B, T, E)
        padded[mask] = x[0]
        h = self.encoder(padded, batch.lengths)[mask]  # (N, 2H)
        h = self.dropout(self.tokens.beside(h.unsqueeze(0), row))  # (1, N, F)
        return x[0], h[0]


class Antecedents(nn.Module):
    """Ranks the earlier spans of each span: a rough score of all pairs, a fine one of the best.

    The width of a span's vector is G. One more genre than `num_genres` stands for all others.
    """

    bounds: Tensor

    def __init__(self, width: int, num_genres: int, settings: CorefSettings) -> None:
        super().__init__()
        self.max_antecedents = settings.max_antecedents
        feature_width, hidden_width = settings.feature_width, settings.hidden_width
        self.bilinear = nn.Linear(width, width, bias=False)
        self.register_buffer("bounds", torch.tensor(DISTANCES), persistent=False)
        self.rough_distance = nn.Embedding(len(DISTANCES) + 1, 1)
        self.distance = nn.Embedding(len(DISTANCES) + 1, feature_width)
        self.genre = nn.Embedding(num_genres + 1, feature_width)
        # A layer on [g_i; g_j; g_i * g_j; features], split so that g_i and g_j cost S, not S * A.
        self.this = nn.Linear(width, hidden_width)
        self.that = nn.Linear(width, hidden_width, bias=False)
        self.both = nn.Linear(width, hidden_width, bias=False)
        self.features = nn.Linear(2 * feature_width, hidden_width, bias=False)
        self.top = hidden_layers(hidden_width, settings.hidden_dropout)
        nn.init.zeros_(self.rough_distance.weight)
        nn.init.normal_(self.bilinear.weight, std=0.1 / width**0.5)

    def forward(self, g: Tensor, mentions: Tensor, genre: Tensor) -> tuple[Tensor, Tensor]:
        """Indices of each span's antecedents (S, A), and scores (S, A) in float32.

        A score is -inf where there are fewer than A earlier spans.

        Args:
            g: (S, G) vectors of the spans.
            mentions: (S,) mention scores.
            genre: () number of the document's genre.
        """
        rough = self._rough(g) + mentions[:, None] + mentions  # (S, S)
        is_earlier = torch.ones_like(rough, dtype=torch.bool).tril(-1)  # (S, S)
        rough = rough.masked_fill(~is_earlier, float("-inf"))
        best, numbers = rough.topk(min(self.max_antecedents, len(g)), 1)  # (S, A)
        return numbers, best + self._fine(g, numbers, genre)

    def _rough(self, g: Tensor) -> Tensor:
        """Scores of all pairs, (S, S)."""
        pairs = (self.bilinear(g) @ g.T).float()  # (S, S)
        steps = torch.arange(len(g), device=g.device)
        back = self._bucket(steps[:, None] - steps)  # (S, S)
        found: Tensor = pairs + self.rough_distance(back).squeeze(2)
        return found

    def _fine(self, g: Tensor, numbers: Tensor, genre: Tensor) -> Tensor:
        """Scores of the selected pairs, (S, A)."""
        S, A = numbers.shape
        back = torch.arange(S, device=g.device)[:, None] - numbers  # (S, A)
        distance = self.distance(self._bucket(back))  # (S, A, ·)
        features = torch.cat([distance, self.genre(genre).expand(S, A, -1)], -1)  # (S, A, ·)
        # embedding(), not g[numbers]: its backward is twice as fast when rows repeat.
        hidden = self.this(g).unsqueeze(1) + embedding(numbers, self.that(g))  # (S, A, ·)
        hidden = hidden + self.both(g.unsqueeze(1) * embedding(numbers, g))
        hidden = hidden + self.features(features)
        found: Tensor = self.top(hidden).squeeze(-1).float()
        return found

    def _bucket(self, back: Tensor) -> Tensor:
        """Buckets 0 to 9 of distances; spans that are not earlier have 0."""
        return torch.bucketize(back, self.bounds, right=True)


def hidden_layers(width: int, dropout: float) -> nn.Sequential:
    """What follows a first linear layer: its ReLU, a second layer, and a score."""
    return nn.Sequential(
        nn.ReLU(), nn.Dropout(dropout),
        nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout),
        nn.Linear(width, 1),
    )  # fmt: skip


def marginal_loss(scores: Tensor, is_right: Tensor) -> Tensor:
    """-log of the total probability of all correct antecedents, (S, A), (S, A) -> (S,).

    If none is correct, the correct choice is no antecedent, with score 0.
    """
    none = scores.new_zeros(len(scores), 1)
    scores = torch.cat([none, scores], 1)  # (S, A + 1)
    is_right = torch.cat([~is_right.any(1, keepdim=True), is_right], 1)  # (S, A + 1)
    right = scores.masked_fill(~is_right, float("-inf"))  # (S, A + 1)
    return torch.logsumexp(scores, 1) - torch.logsumexp(right, 1)


def clusters_of(
    spans: Sequence[Mention], links: Sequence[int], stands_alone: Sequence[bool]
) -> tuple[Cluster, ...]:
    """The clusters that links form, in the order of their first mentions.

    Args:
        spans: in text order.
        links: index of each span's antecedent; -1 is none.
        stands_alone: whether each span is a cluster of its own if nothing links to it.
    """
    clusters: list[list[int]] = []
    cluster_of: list[list[int]] = []
    for i, link in enumerate(links):
        if link < 0:
            clusters.append([])
        cluster_of.append(clusters[-1] if link < 0 else cluster_of[link])
        cluster_of[-1].append(i)
    kept = (c for c in clusters if len(c) > 1 or stands_alone[c[0]])
    return tuple(tuple(spans[i] for i in cluster) for cluster in kept)
