"""Spans of a text: all up to a width, a layer over every one of them, and the best of them.

N tokens, W the greatest width, S spans, F features. All spans are a grid (N, W): at row i and
column w stands the span of the tokens i … i + w. What a span is made of: its first token, its last
token, the tokens in it weighted by attention (its head), and its width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

POOL = 5
"""Spans looked at for each span to be kept."""
FAR_BELOW = -60.0
"""No weight of attention is smaller than e to this power times the largest near it, so that no
span is without any."""


def windows(x: Tensor, max_width: int) -> Tensor:
    """The W tokens from each token on: (N, ...) -> (N, W, ...); 0 past the end of the text."""
    padded = torch.cat([x, x.new_zeros(max_width, *x.shape[1:])])
    return padded.unfold(0, max_width, 1)[: len(x)].movedim(-1, 1)


def spans_within(sentence_of: Tensor, max_width: int) -> Tensor:
    """Which spans of the grid do not leave their sentence: numbers (N,) -> true where so (N, W)."""
    number = sentence_of + 1  # 0 stands past the end
    return windows(number, max_width) == number[:, None]


def heads_of_all(values: Tensor, attention: Tensor, fits: Tensor) -> Tensor:
    """The mean of the values in every span, weighted by softmax of the attention: (N, W, F).

    A wider span adds one token to the sums of a narrower one, so all of them cost as much as the
    grid has cells.

    Args:
        values: (N, F).
        attention: (N,) scores of the tokens.
        fits: (N, W) which spans are wanted; in a row the narrower ones.
    """
    W = fits.shape[1]
    scores = windows(attention.float(), W)  # (N, W)
    top = scores.masked_fill(~fits, float("-inf")).amax(1, keepdim=True)  # (N, 1)
    weights = (scores - top).clamp(FAR_BELOW, 0).exp()
    sums = (windows(values.float(), W) * weights.unsqueeze(2)).cumsum(1)  # (N, W, F)
    return sums / weights.cumsum(1).unsqueeze(2)


def heads_of(values: Tensor, attention: Tensor, first: Tensor, last: Tensor, W: int) -> Tensor:
    """The same of chosen spans alone: (N, F), (N,), (S,), (S,) -> (S, F)."""
    places = first[:, None] + torch.arange(W, device=first.device)  # (S, W)
    inside = places <= last[:, None]
    places = places.clamp(max=len(values) - 1)
    scores = attention.float()[places].masked_fill(~inside, float("-inf"))  # (S, W)
    inner = embedding(places, values)  # (S, W, F); quicker back than values[places]
    return torch.einsum("sw,swf->sf", torch.softmax(scores, 1), inner.float())


class SpanLayer(nn.Module):
    """A linear layer on [first; last; head; width] of every span, made from its parts.

    The parts are multiplied token by token before they are put together: for N tokens rather than
    N * W spans. The outcome is that of `nn.Linear` on the whole.

    Args:
        end_width: of the vectors of a span's first and last token.
        head_width: of those that attention looks at.
        feature_width: of a width's vector.
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
        """Outputs of the whole grid, (N, W, F); what stands where `fits` is false means nothing.

        Args:
            ends: (N, ·) of first and last tokens.
            heads: (N, ·) of tokens inside.
            attention: (N,) scores of the tokens.
            widths: (W, ·) one vector per width.
            fits: (N, W) which spans there are.
        """
        head = heads_of_all(self.head(heads), attention, fits)  # (N, W, F)
        last = windows(self.last(ends), fits.shape[1])  # (N, W, F)
        found: Tensor = self.first(ends).unsqueeze(1) + last + head + self.width(widths)
        return found


@torch.no_grad()
def best_spans(scores: Tensor, first: Tensor, last: Tensor, num_kept: int) -> Tensor:
    """Numbers of the best spans, (S,) -> at most (num_kept,), none crossing another.

    From the best score down, a span is taken unless it crosses one that was taken: both overlap
    and neither holds the other. They are given in the order of the text. Only the POOL * num_kept
    best are looked at; where these cross too often, fewer than num_kept are found.
    """
    order = torch.sort(scores, descending=True, stable=True).indices[: POOL * num_kept]  # (M,)
    a, b = first[order], last[order]
    is_left = (a[:, None] < a) & (a <= b[:, None]) & (b[:, None] < b)  # (M, M) overlaps on the left
    crosses = is_left | is_left.T
    taken = order[_greedy(crosses)][:num_kept]
    place = first[taken] * (last.max() + 1) + last[taken] if len(taken) else taken
    return taken[place.argsort()]


def _greedy(conflicts: Tensor) -> Tensor:
    """Which of M things are taken, one after the other unless it conflicts with one before: (M,).

    Whether each is taken follows from those before it. All are asked again and again what follows
    from the last round's answers: after n rounds the first n are right at the latest, after some
    ten nothing changes any more.
    """
    before = conflicts.tril(-1).float()  # (M, M) at [i, j]: j comes first and forbids i
    taken = before.new_ones(len(before))
    while True:
        anew = (before @ taken == 0).float()
        if torch.equal(anew, taken):
            return taken.bool()
        taken = anew
