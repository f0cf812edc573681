"""The biattentive classification network (McCann et al. 2017): a text -> one of K classes.

words (B, T) -> [static; ELMo] (B, T, E) -> ReLU -> biLSTM -> H = [h; ELMo'] (B, T, F)
C = each token's attention over the text (B, T, F)
[H; H - C; H * C] (B, T, 3F) -> biLSTM (B, T, 2I) -> max, mean, min, attentive (B, 8I)
-> maxout, twice -> classes (B, K)

The paper's network reads two texts; to classify one text it reads it twice. Attention between two
equal copies is the same both ways, so a single copy is read here.

`integrator_width = 0` pools H itself. For few texts, `cell_width = 0` leaves most of this out: the
mean of a text's token vectors, standardized, -> classes. It is a logistic regression whose mix of
ELMo's layers is learned.

A long text is several windows, rows of the batch that are encoded apart and pooled together, so
that memory grows with the length of a text and not with its square.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from relmo.config import Count, CountOrZero, DropoutRate, Range, Settings
from relmo.kernels.device import to_device
from relmo.nn.blocks.attention import (
    AttentivePool,
    align,
    dot_scores,
    max_pool,
    mean_pool,
    min_pool,
)
from relmo.nn.blocks.encoder import RecurrentEncoder, put, take
from relmo.nn.blocks.feed_forward import BatchNorm, Maxout, Norm, rectified
from relmo.tasks.inputs import TokenBatch, TokenInput

MAX_TOKENS = 2**14
"""Tokens of a batch, with padding, whose activations are kept for the gradients, up to 1 GB of
them; those of larger batches are computed a second time."""


@dataclass(frozen=True, kw_only=True)
class SstSettings(Settings):
    """Settings of the model."""

    hidden_width: CountOrZero = 300
    """Width of the ReLU layer between the token vectors and the encoder; 0 leaves it out."""
    cell_width: CountOrZero = 300
    """Cells in each direction of the first biLSTM. 0 leaves out both biLSTMs and the attention
    between them: the token vectors themselves are pooled, which few texts suffice to learn from."""
    integrator_width: CountOrZero = 300
    """I: cells in each direction of the second biLSTM. 0 leaves out it and the attention before it:
    what the first one says is pooled."""
    dropout: DropoutRate = 0.2
    """Before each biLSTM, drawn for each token: features that a whole text loses at once hide what
    distinguishes it from other texts."""
    maxout_layers: Annotated[int, Range(least=0, most=100)] = 2
    pieces: Count = 4
    """Linear maps of which a maxout layer takes the maximum."""
    reduction: Count = 4
    """Factor by which each maxout layer narrows its input."""
    maxout_dropout: DropoutRate = 0.2
    maxout_norm: Norm = "batch"
    """Normalization of a maxout layer's values. `batch` is the paper's: its running statistics come
    from training under dropout, while the text to be classified has none. `layer` learns more
    steadily from few examples, and no better from many (experiments/LOG.md)."""


class SstModel(nn.Module):
    """Scores the K classes of a text."""

    def __init__(self, settings: SstSettings, tokens: TokenInput, num_classes: int) -> None:
        super().__init__()
        s, self.tokens = settings, tokens
        self.dropout = nn.Dropout(s.dropout)
        width = s.hidden_width or tokens.width
        self.hidden = rectified(tokens.width, width) if s.hidden_width else nn.Identity()
        self.encoder: RecurrentEncoder | None = None
        self.integrator: RecurrentEncoder | None = None
        self.pools: list[Callable[[Tensor, Tensor], Tensor]] = [max_pool, mean_pool, min_pool]
        if s.cell_width:
            self.encoder = RecurrentEncoder(width, s.cell_width)
            encoded = self.encoder.width + tokens.extra_width  # F
            if s.integrator_width:
                self.integrator = RecurrentEncoder(3 * encoded, s.integrator_width)
                encoded = self.integrator.width
            self.attentive_pool = AttentivePool(encoded)
            self.pools.append(self.attentive_pool)
            self.spread: nn.Module = nn.Identity()
            pooled = 4 * encoded
        else:
            self.pools = [mean_pool]
            pooled = width + tokens.extra_width
            self.spread = nn.Sequential(BatchNorm(pooled, affine=False), self.dropout)
        widths = [max(1, pooled // s.reduction**i) for i in range(s.maxout_layers + 1)]
        self.maxout = nn.Sequential(
            *(Maxout(a, b, s.pieces, s.maxout_dropout, s.maxout_norm) for a, b in pairwise(widths))
        )
        self.to_classes = nn.Linear(widths[-1], num_classes)
        if not s.cell_width:
            nn.init.zeros_(self.to_classes.weight)

    def forward(self, batch: TokenBatch, num_windows: Tensor | None = None) -> Tensor:
        """Scores of the classes, (B, K).

        Args:
            batch: the texts, or their windows, those of a text one after the other.
            num_windows: (B,) of each text, on the CPU; by default one.
        """
        size = max(1, MAX_TOKENS // batch.mask.shape[1])
        if len(batch.mask) <= size:
            z = self.encode(*batch)  # (B, T, 2I)
        else:
            parts = (checkpoint(self.encode, *p, use_reentrant=False) for p in batch.split(size))
            z = torch.cat(list(parts))
        mask = batch.mask
        if num_windows is not None:
            z, mask = join_windows(z, batch.lengths, num_windows)
        pooled = torch.cat([pool(z, mask) for pool in self.pools], -1)  # (B, 8I)
        scores: Tensor = self.to_classes(self.maxout(self.spread(pooled)))  # (B, K)
        return scores

    def encode(self, *tensors: Tensor | None) -> Tensor:
        """Vectors of the tokens of a TokenBatch, (B, T, 2I)."""
        batch = TokenBatch(*tensors)  # type: ignore[arg-type]
        lengths, mask = batch.lengths, batch.mask
        x = self.hidden(self.tokens(batch))  # (B, T, ·)
        if self.encoder is None:
            return self.tokens.beside(x, batch)
        h: Tensor = self.encoder(self.dropout(x), lengths)  # (B, T, 2H)
        h = self.tokens.beside(h, batch)  # (B, T, F)
        if self.integrator is None:
            dropped: Tensor = self.dropout(h)
            return dropped
        context = align(dot_scores(h, h), h, mask)  # (B, T, F)
        both = torch.cat([h, h - context, h * context], -1)  # (B, T, 3F)
        z: Tensor = self.integrator(self.dropout(both), lengths)  # (B, T, 2I)
        return z


def join_windows(z: Tensor, lengths: Tensor, num_windows: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens of windows (S, T, F) as texts (B, M, F), and their mask (B, M).

    Args:
        z: vectors of the tokens.
        lengths: (S,) of the windows, on the CPU.
        num_windows: (B,) of each text, on the CPU.
    """
    B = len(num_windows)
    text = torch.repeat_interleave(num_windows)  # (S,)
    totals = torch.zeros(B, dtype=torch.long).index_add(0, text, lengths)  # (B,)
    M = int(totals.max())
    tokens = take(z, to_device(_places(lengths, z.shape[1]), z.device))  # (N, F)
    joined = put(tokens, to_device(_places(totals, M), z.device), B, M)  # (B, M, F)
    return joined, to_device(torch.arange(M) < totals[:, None], z.device)


def _places(lengths: Tensor, T: int) -> Tensor:
    """(N,) places of the tokens in a padded batch (B, T), row by row."""
    row = torch.repeat_interleave(lengths)  # (N,)
    return row * T + torch.arange(len(row)) - (lengths.cumsum(0) - lengths)[row]
