"""The full softmax on a GPU: the scores of a block of words are read once, summed up, forgotten.

The scores are one matrix product. One program per token then goes through its row in pieces, or
through both of its rows, what comes before and what comes after, side by side. It adds the bias,
and keeps what `full_softmax.py` sums up: the largest score so far, the sum of the powers less it,
the same weighted by the scores, the score of the target, and the sum of the products of both
directions' powers. These few numbers per token stay in memory from one block to the next; plain
torch would go through the scores some fifteen times to find them.

A piece that is not full is masked: the last block, which is smaller, needs no kernel of its own.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from relmo.kernels.device import on_its_device

PIECE = 1024
"""Scores of a row looked at together."""


@on_its_device
def add_scores(
    scores: Tensor, bias: Tensor, first: int, targets: Tensor,
    top: Tensor, total: Tensor, own: Tensor,
) -> None:  # fmt: skip
    """Add the scores of words from number `first` on to the sums of n tokens.

    Args:
        scores: (n, B), without the bias.
        bias: (B,).
        first: number of the first word.
        targets: (n,) numbers of words.
        top: (n,) the largest score so far.
        total: (n,) of the powers of the scores less the largest.
        own: (n,) scores of the targets.
    """
    n, size = scores.shape
    _add_kernel[(n,)](scores, bias, first, size, targets, top, total, own, PIECE, num_warps=4)


@on_its_device
def add_both(
    scores: Tensor, bias: Tensor, first: int, targets: Tensor,
    top: Tensor, total: Tensor, own: Tensor, weighted: Tensor,
    top_after: Tensor, total_after: Tensor, own_after: Tensor, product: Tensor,
) -> None:  # fmt: skip
    """The same of both directions.

    Args:
        scores: (2n, B), those of the forward direction first.
        bias: (B,).
        first: number of the first word.
        targets: (n,).
        top: (n,), forward, and so are the next two: see `add_scores`.
        total: see there.
        own: see there.
        weighted: (n,) of the forward powers, each times its score.
        top_after: (n,), backward, and so are the next two.
        total_after: see there.
        own_after: see there.
        product: (n,) of the powers of both directions, summed up.
    """
    n, size = scores.shape[0] // 2, scores.shape[1]
    _add_both_kernel[(n,)](
        scores, bias, first, size, n, targets, top, total, own, weighted,
        top_after, total_after, own_after, product, PIECE, num_warps=4,
    )  # fmt: skip


@triton.jit(do_not_specialize=["first"])
def _add_kernel(
    scores, bias, first, size, targets, top, total, own, PIECE: tl.constexpr,
):  # fmt: skip
    token, lane = tl.program_id(0), tl.arange(0, PIECE)
    row = scores + token.to(tl.int64) * size
    most = tl.load(top + token)
    sums = _load_sum(total + token, lane)
    for start in range(0, size, PIECE):
        score = _scores_at(row, bias, start + lane, size)
        powers, most, shrink = _powers(score, most)
        sums = sums * shrink + powers
    tl.store(top + token, most)
    tl.store(total + token, tl.sum(sums, 0))
    _keep_own(row, bias, tl.load(targets + token) - first, size, own + token)


@triton.jit(do_not_specialize=["first", "n"])
def _add_both_kernel(
    scores, bias, first, size, n, targets, top, total, own, weighted,
    top_after, total_after, own_after, product, PIECE: tl.constexpr,
):  # fmt: skip
    token, lane = tl.program_id(0), tl.arange(0, PIECE)
    ahead = scores + token.to(tl.int64) * size
    behind = scores + (token.to(tl.int64) + n) * size
    most, most_after = tl.load(top + token), tl.load(top_after + token)
    sums, sums_after = _load_sum(total + token, lane), _load_sum(total_after + token, lane)
    weights, products = _load_sum(weighted + token, lane), _load_sum(product + token, lane)
    for start in range(0, size, PIECE):
        score = _scores_at(ahead, bias, start + lane, size)
        score_after = _scores_at(behind, bias, start + lane, size)
        powers, most, shrink = _powers(score, most)
        powers_after, most_after, shrink_after = _powers(score_after, most_after)
        sums = sums * shrink + powers
        sums_after = sums_after * shrink_after + powers_after
        weights = weights * shrink + powers * tl.where(powers > 0, score, 0.0)
        products = products * (shrink * shrink_after) + powers * powers_after
    tl.store(top + token, most)
    tl.store(top_after + token, most_after)
    tl.store(total + token, tl.sum(sums, 0))
    tl.store(total_after + token, tl.sum(sums_after, 0))
    tl.store(weighted + token, tl.sum(weights, 0))
    tl.store(product + token, tl.sum(products, 0))
    place = tl.load(targets + token) - first
    _keep_own(ahead, bias, place, size, own + token)
    _keep_own(behind, bias, place, size, own_after + token)


@triton.jit
def _load_sum(sums, lane):
    """A sum so far, in the first of many lanes that go on with it."""
    return tl.where(lane == 0, tl.load(sums), 0.0)


@triton.jit
def _scores_at(row, bias, column, size):
    """The scores in some columns; beyond the block they are impossible."""
    inside = column < size
    score = tl.load(row + column, mask=inside, other=float("-inf"))
    return score + tl.load(bias + column, mask=inside, other=0.0)


@triton.jit
def _powers(score, most):
    """Of the scores less the largest so far; that one; by how much the powers before it shrink."""
    now = tl.maximum(most, tl.max(score, 0))
    return tl.exp(score - now), now, tl.exp(most - now)


@triton.jit
def _keep_own(row, bias, place, size, own):
    """Store the target's score if the target is in the block."""
    inside = (place >= 0) & (place < size)
    score = tl.load(row + place, mask=inside, other=0.0)
    tl.store(own, score + tl.load(bias + place, mask=inside, other=0.0), mask=inside)
