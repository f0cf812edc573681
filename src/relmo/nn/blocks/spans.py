"""Spans of a text: all up to a maximum width, a layer over all of them, and the best of them.

N tokens, W maximum width, S spans, F features. All spans form a grid (N, W): row i and column w is
the span of the tokens i … i + w. A span is represented by its first token, its last token, the
attention-weighted mean of its tokens (its head), and its width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

POOL = 5
"""Candidates considered per span to be kept."""
LOG_FLOOR = -60.0
"""Lower bound of the log of an attention weight relative to the largest of its row, so that no span
has only zero weights."""


def windows(x: Tensor, max_width: int) -> Tensor:
    """The W tokens from each token on: (N, ...) -> (N, W, ...); 0 past the end of the text."""
    padded = torch.cat([x, x.new_zeros(max_width, *x.shape[1:])])
    return padded.unfold(0, max_width, 1)[: len(x)].movedim(-1, 1)


def spans_within(sentence_of: Tensor, max_width: int) -> Tensor:
    """Which spans of the grid stay within a sentence: sentence numbers (N,) -> (N, W) bool."""
    number = sentence_of + 1  # 0 is past the end of the text
    return windows(number, max_width) == number[:, None]


def heads_of_all(values: Tensor, attention: Tensor, fits: Tensor) -> Tensor:
    """The mean of the values of every span, weighted by the softmax of the attention: (N, W, F).

    A wider span adds one token to the sums of a narrower one, so the cost is linear in the number
    of spans.

    Args:
        values: (N, F).
        attention: (N,) scores of the tokens.
        fits: (N, W) which spans exist; in each row the narrower ones.
    """
    W = fits.shape[1]
    scores = windows(attention.float(), W)  # (N, W)
    top = scores.masked_fill(~fits, float("-inf")).amax(1, keepdim=True)  # (N, 1)
    weights = (scores - top).clamp(LOG_FLOOR, 0).exp()  # (N, W)
    sums = (windows(values.float(), W) * weights.unsqueeze(2)).cumsum(1)  # (N, W, F)
    return sums / weights.cumsum(1).unsqueeze(2)  # (N, W, F)


def heads_of(values: Tensor, attention: Tensor, first: Tensor, last: Tensor, W: int) -> Tensor:
    """The same for selected spans: (N, F), (N,), (S,), (S,) -> (S, F)."""
    places = first[:, None] + torch.arange(W, device=first.device)  # (S, W)
    inside = places <= last[:, None]  # (S, W)
    places = places.clamp(max=len(values) - 1)
    scores = attention.float()[places].masked_fill(~inside, float("-inf"))  # (S, W)
    inner = embedding(places, values)  # (S, W, F); faster backward than values[places]
    return torch.einsum("sw,swf->sf", torch.softmax(scores, 1), inner.float())


class SpanLayer(nn.Module):
    """A linear layer on [first; last; head; width] of every span, computed in parts.

    The weights are applied to N tokens, before these are combined, rather than to N * W spans. The
    result is that of `nn.Linear` on the concatenation.

    Args:
        end_width: of the vectors of a span's first and last token.
        head_width: of the vectors that attention averages.
        feature_width: of the embedding of a span's width.
        output_width: F.
    """

    def __init__(
        self, end_width: int, head_width: int, feature_width: int, output_width: int
    ) -> None:
        super().__init__()
        self.first = nn.Linear(end_width, output_width)
        self.last = nn.Linear(end_width, output_width, bias=False)
        self.head = nn.Linear(head_width, output_width, bias=False)
        self.width = nn.Linear(feature_width, output_width, bias=False)

    def forward(
        self, ends: Tensor, heads: Tensor, attention: Tensor, widths: Tensor, fits: Tensor
    ) -> Tensor:
        """Outputs for the whole grid, (N, W, F), undefined where `fits` is false.

        Args:
            ends: (N, ·) vectors of first and last tokens.
            heads: (N, ·) vectors of the tokens in a span.
            attention: (N,) scores of the tokens.
            widths: (W, ·) embeddings of widths.
            fits: (N, W) which spans exist.
        """
        head = heads_of_all(self.head(heads), attention, fits)  # (N, W, F)
        last = windows(self.last(ends), fits.shape[1])  # (N, W, F)
        found: Tensor = self.first(ends).unsqueeze(1) + last + head + self.width(widths)
        return found


@torch.no_grad()
def best_spans(scores: Tensor, first: Tensor, last: Tensor, num_kept: int) -> Tensor:
    """Indices of the best spans, (S,) -> at most (num_kept,), none crossing another.

    In descending order of scores, a span is kept unless it crosses one that was kept: the two
    overlap and neither contains the other. Indices are in text order. Only the POOL * num_kept best
    are considered; if too many of these cross, fewer than num_kept are kept.
    """
    order = torch.sort(scores, descending=True, stable=True).indices[: POOL * num_kept]  # (M,)
    a, b = first[order], last[order]
    is_left = (a[:, None] < a) & (a <= b[:, None]) & (b[:, None] < b)  # (M, M): overlaps left
    crosses = is_left | is_left.T  # (M, M)
    taken = order[_greedy(crosses)][:num_kept]
    place = first[taken] * (last.max() + 1) + last[taken] if len(taken) else taken
    return taken[place.argsort()]


def _greedy(conflicts: Tensor) -> Tensor:
    """Which of M items are kept, in order, if each excludes later ones it conflicts with: (M,).

    Whether an item is kept depends on earlier ones alone. All items are decided at once from the
    decisions of the previous round: after n rounds at least the first n are final, and after about
    ten nothing changes anymore.
    """
    before = conflicts.tril(-1).float()  # (M, M) at [i, j]: j is earlier and excludes i
    taken = before.new_ones(len(before))  # (M,)
    while True:
        anew = (before @ taken == 0).float()  # (M,)
        if torch.equal(anew, taken):
            return taken.bool()
        taken = anew
