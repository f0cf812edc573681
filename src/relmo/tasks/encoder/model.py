"""A text as one vector: a weighted mean of its tokens, projected.

words of S sentences -> [word; softmax row; ELMo] (S, T, E)
attention            exp(log(a / (a + p)) + u · x)            one weight per token
pool                 sum of weight * x over a text's sentences (N, E)
vector               normalize(W pool)                         (N, D)

N texts; E width of a token; D width of a vector. p is a word's relative frequency, which its rank
in the model's vocabulary says (Arora et al. 2017): frequent words weigh little before anything is
learned. Trained so that the vectors of a pair are nearer to each other than to those of all other
texts of the batch, also if they are cut to half or a quarter of their width (Kusupati et al. 2022).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from relmo.config import Count, NonNegative, Positive, Settings
from relmo.tasks.inputs import TokenBatch, TokenInput

EULER = 0.5772
"""The sum of 1 / r over the ranks of V words is about ln V + EULER."""
CUTS = ((1, 0.6), (2, 0.2), (4, 0.2))
"""Parts of the width at which vectors are compared, and what these losses weigh."""
FAR_BELOW = -1e4
SEARCHED = 512
"""Queries whose cosines with all passages are in memory at a time."""


@dataclass(frozen=True, kw_only=True)
class EncoderSettings(Settings):
    """Settings of the encoder and of its loss."""

    width: Count = 256
    """D, of a text's vector. Its first half and its first quarter are vectors, too."""
    weight_at: NonNegative = 3e-5
    """Relative frequency of a word that weighs half at first: the a of a / (a + p). 0: all words
    weigh the same at first. It needs input.output_embeddings, which know a word's rank."""
    temperature: Positive = 0.05
    """By which cosines are divided in the loss."""
    chunk_tokens: Count = 32_768
    """Tokens whose activations are kept. Larger batches are read in chunks of this size, twice."""


class Texts(NamedTuple):
    """Sentences of N texts, and which text each belongs to."""

    batch: TokenBatch
    """S sentences."""
    owner: Tensor
    """(S,) number of the text."""
    num_texts: int
    """N."""


class EncoderModel(nn.Module):
    """The vector of a text from the vectors of its tokens."""

    prior: Tensor

    def __init__(self, settings: EncoderSettings, tokens: TokenInput) -> None:
        super().__init__()
        self.settings, self.tokens = settings, tokens
        width = tokens.width + tokens.extra_width
        self.pooled_width = width
        """E."""
        self.attention = nn.Linear(width, 1, bias=False)
        self.projection = nn.Linear(width, settings.width, bias=False)
        nn.init.zeros_(self.attention.weight)
        nn.init.orthogonal_(self.projection.weight)
        prior = torch.zeros(0)
        if tokens.output is not None:
            prior = log_weights(tokens.output.num_words, settings.weight_at)
            prior[tokens.output.unknown_row] = prior[-1]  # rarer than any word of the vocabulary
        self.register_buffer("prior", prior, persistent=False)

    def forward(self, texts: Texts) -> Tensor:
        """Unit-length vectors of N texts, (N, D); zeros for a text without words."""
        return self.finish(self.pool(texts))

    def finish(self, pooled: Tensor) -> Tensor:
        """Unit-length vectors (N, D) of what was pooled, (N, E)."""
        with _in_float32(pooled):
            return normalize(self.projection(pooled), dim=-1)

    def pool(self, texts: Texts) -> Tensor:
        """The weighted sums of the tokens of each text, (N, E)."""
        batch = texts.batch
        x = self.tokens.beside(self.tokens(batch), batch).float()  # (S, T, E)
        with _in_float32(x):
            weights = self.weights(x, batch) * batch.mask  # (S, T)
            of_sentences = torch.einsum("st,ste->se", weights, x)  # (S, E)
        return x.new_zeros(texts.num_texts, x.shape[2]).index_add(0, texts.owner, of_sentences)

    def weights(self, x: Tensor, batch: TokenBatch) -> Tensor:
        """How much each token counts, (S, T), from their vectors (S, T, E)."""
        scores: Tensor = self.attention(x).squeeze(-1)  # (S, T)
        if batch.output is not None:
            scores = scores + self.prior[batch.output]
        return scores.exp()


def _in_float32(values: Tensor) -> torch.autocast:
    """Arithmetic in float32, also inside of autocast.

    In bfloat16, cosines divided by the temperature are off by more than texts often differ by.
    """
    return torch.autocast(values.device.type, enabled=False)


def log_weights(num_words: int, at: float) -> Tensor:
    """log(a / (a + p)) of each word of a vocabulary sorted by count, (V,): p by Zipf's law."""
    if not at or not num_words:
        return torch.zeros(num_words)
    ranks = torch.arange(1, num_words + 1, dtype=torch.float64)
    p = 1 / (ranks * (math.log(num_words) + EULER))
    return torch.log(at / (at + p)).float()


def contrastive_loss(
    queries: Tensor, passages: Tensor, right: Tensor, temperature: float
) -> Tensor:
    """The mean -log p of the right passage of each query, and of the query of each passage.

    Args:
        queries: (B, D) unit-length vectors.
        passages: (B + M, D): that of each query, then M that answer none.
        right: (B, B + M) which passages answer a query; besides its own, these are left out.
        temperature: by which cosines are divided.
    """
    B, D = queries.shape
    own = torch.arange(B, device=queries.device)
    left_out = right.clone()
    left_out[own, own] = False
    total = queries.new_zeros(())
    for part, weight in CUTS:
        q, p = (normalize(each[:, : max(1, D // part)], dim=-1) for each in (queries, passages))
        with _in_float32(q):
            scores = (q @ p.T / temperature).masked_fill(left_out, FAR_BELOW)  # (B, B + M)
        both = cross_entropy(scores, own) + cross_entropy(scores[:, :B].T, own)
        total = total + weight * both / 2
    return total


def mean_reciprocal_rank(ranks: Tensor, depth: int = 10) -> float:
    """The mean of 1 / rank, (B,); what is below the first `depth` counts nothing."""
    return (1 / ranks.double()).masked_fill(ranks > depth, 0).sum().item() / max(1, len(ranks))


def search(
    queries: Tensor, passages: Tensor, right: Sequence[Collection[int]]
) -> tuple[Tensor, Tensor]:
    """What each query finds by cosine.

    Passages that score the same share their ranks, so that equal vectors for all find nothing.

    Args:
        queries: (B, D) unit-length vectors.
        passages: (P, D) likewise.
        right: of each query, the numbers of the passages that suit it.

    Returns:
        The rank of the best of the right passages, (B,), a multiple of a half; and the number of
        the best of the others, (B,), or of any passage if there are no others.
    """
    ranks, others = [], []
    for first in range(0, len(queries), SEARCHED):
        scores = queries[first : first + SEARCHED] @ passages.T  # (b, P)
        wanted = [sorted(numbers) for numbers in right[first : first + SEARCHED]]
        rows = np.repeat(np.arange(len(wanted)), list(map(len, wanted)))
        is_right = torch.zeros_like(scores, dtype=torch.bool)  # (b, P)
        is_right[torch.from_numpy(rows), torch.tensor(list(chain.from_iterable(wanted)))] = True
        best = scores.masked_fill(~is_right, -math.inf).amax(1, keepdim=True)  # (b, 1)
        rest = scores.masked_fill(is_right, -math.inf)
        ranks.append(1 + (rest > best).sum(1) + (rest == best).sum(1) / 2)
        others.append(rest.argmax(1))
    return torch.cat(ranks), torch.cat(others)
