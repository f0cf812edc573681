"""Which earlier span does a span go back to? A rough score of all pairs, a fine one of the best.

    s(i, j) = mention(i) + mention(j) + rough(i, j) + fine(i, j);     s(i, none) = 0

S spans in the order of the text, A antecedents looked at for each, G width of a span. The rough
score is that of Lee et al. (2018), bilinear and with a word on the distance: it costs one product
for all pairs and finds antecedents far away, which the nearest A spans do not hold.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from relmo.tasks.coref.data import Cluster, Mention

DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)
"""Spans back from which on a distance counts as farther: ten distances are told apart."""


class Antecedents(nn.Module):
    """Ranks earlier spans.

    Args:
        width: G.
        hidden_width: of the two layers of the fine score.
        feature_width: of the vectors of a distance and of a genre.
        num_genres: of documents; one more stands for all others.
        max_antecedents: A at most.
        dropout: in the hidden layers.
    """

    bounds: Tensor

    def __init__(
        self,
        width: int,
        hidden_width: int,
        feature_width: int,
        num_genres: int,
        max_antecedents: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.max_antecedents = max_antecedents
        self.bilinear = nn.Linear(width, width, bias=False)
        self.register_buffer("bounds", torch.tensor(DISTANCES), persistent=False)
        self.rough_distance = nn.Embedding(len(DISTANCES) + 1, 1)
        self.distance = nn.Embedding(len(DISTANCES) + 1, feature_width)
        self.genre = nn.Embedding(num_genres + 1, feature_width)
        # A layer on [g_i; g_j; g_i * g_j; features], parted so that g_i and g_j cost S, not S * A.
        self.this = nn.Linear(width, hidden_width)
        self.that = nn.Linear(width, hidden_width, bias=False)
        self.both = nn.Linear(width, hidden_width, bias=False)
        self.features = nn.Linear(2 * feature_width, hidden_width, bias=False)
        self.top = hidden_layers(hidden_width, dropout)
        nn.init.zeros_(self.rough_distance.weight)
        nn.init.normal_(self.bilinear.weight, std=0.1 / width**0.5)

    def forward(self, g: Tensor, mentions: Tensor, genre: Tensor) -> tuple[Tensor, Tensor]:
        """Numbers of each span's antecedents (S, A), and scores (S, A) in float32.

        A score is -inf where there are fewer earlier spans than A.

        Args:
            g: (S, G) spans.
            mentions: (S,) scores of being a mention.
            genre: () number of the document's genre.
        """
        rough = self._rough(g) + mentions[:, None] + mentions  # (S, S)
        is_earlier = torch.ones_like(rough, dtype=torch.bool).tril(-1)
        rough = rough.masked_fill(~is_earlier, float("-inf"))
        best, numbers = rough.topk(min(self.max_antecedents, len(g)), 1)  # (S, A)
        return numbers, best + self._fine(g, numbers, genre)

    def _rough(self, g: Tensor) -> Tensor:
        """(S, S)."""
        pairs = (self.bilinear(g) @ g.T).float()
        steps = torch.arange(len(g), device=g.device)
        back = self._bucket(steps[:, None] - steps)  # (S, S)
        found: Tensor = pairs + self.rough_distance(back).squeeze(2)
        return found

    def _fine(self, g: Tensor, numbers: Tensor, genre: Tensor) -> Tensor:
        """(S, A)."""
        S, A = numbers.shape
        back = torch.arange(S, device=g.device)[:, None] - numbers  # (S, A)
        distance = self.distance(self._bucket(back))  # (S, A, ·)
        features = torch.cat([distance, self.genre(genre).expand(S, A, -1)], -1)
        # embedding(), not g[numbers]: its gradient is twice as quick where a row is taken often.
        hidden = self.this(g).unsqueeze(1) + embedding(numbers, self.that(g))  # (S, A, ·)
        hidden = hidden + self.both(g.unsqueeze(1) * embedding(numbers, g))
        hidden = hidden + self.features(features)
        found: Tensor = self.top(hidden).squeeze(-1).float()
        return found

    def _bucket(self, back: Tensor) -> Tensor:
        """Numbers from 0 to 9 of distances; what is not earlier has 0."""
        return torch.bucketize(back, self.bounds, right=True)


def hidden_layers(width: int, dropout: float) -> nn.Sequential:
    """What follows a first layer: its ReLU, a second one, and a score."""
    return nn.Sequential(
        nn.ReLU(), nn.Dropout(dropout),
        nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout),
        nn.Linear(width, 1),
    )  # fmt: skip


def marginal_loss(scores: Tensor, is_right: Tensor) -> Tensor:
    """-log of the probability of all right antecedents together, (S, A), (S, A) -> (S,).

    Where none is right, it is right to have none, whose score is 0.
    """
    none = scores.new_zeros(len(scores), 1)
    scores = torch.cat([none, scores], 1)  # (S, A + 1)
    is_right = torch.cat([~is_right.any(1, keepdim=True), is_right], 1)
    right = scores.masked_fill(~is_right, float("-inf"))
    return torch.logsumexp(scores, 1) - torch.logsumexp(right, 1)


def clusters_of(
    spans: Sequence[Mention], links: Sequence[int], stands_alone: Sequence[bool]
) -> tuple[Cluster, ...]:
    """Clusters that links make, in the order of their first mentions.

    Args:
        spans: in the order of the text.
        links: number of an earlier span that each goes back to; -1 is none.
        stands_alone: whether each is a mention even if nothing is linked with it.
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
