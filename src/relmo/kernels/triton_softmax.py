"""Sampled softmax on a GPU: loss and gradients of all tokens in one pass over the scores.

The scores of N tokens against S shared negatives are one matrix product. One kernel per token then
finds the log of the sum, and writes the gradient over the scores; three more products and the
loss is done, its gradients too. Nothing of size N x S is kept. With a teacher, the kernel reads its
scores, too: of the gradient, softmax less target, the target is then partly the teacher's softmax.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from relmo.kernels.device import on_its_device

ROWS = 16384
"""Tokens at a time: bounds the memory of the scores."""


class Taught(NamedTuple):
    """What a teacher says of the same tokens and negatives; no gradient flows to it."""

    hidden: Tensor
    """(N, P') and so on: the first five arguments of `sampled_loss`, its own."""
    target: Tensor
    target_bias: Tensor
    negatives: Tensor
    negative_bias: Tensor
    weight: float
    """Its share of the loss."""


@on_its_device
def sampled_loss(
    hidden: Tensor, target: Tensor, target_bias: Tensor, negatives: Tensor,
    negative_bias: Tensor, hits: Tensor, scale: Tensor, taught: Taught | None = None,
) -> Tensor:  # fmt: skip
    """The sum over tokens of scale * -log p(target), the target against the shared negatives.

    Args:
        hidden: (N, P) what the language model says before each token.
        target: (N, P) softmax weights of each token's word.
        target_bias: (N,) its bias less the log of its chance to be drawn, float32.
        negatives: (S, P) softmax weights of the negatives.
        negative_bias: (S,) their bias less the log of their chance to be drawn, float32.
        hits: (N,) int32, the column where the token's own word is a negative, or -1.
        scale: (N,) weight of each token, float32.
        taught: by a teacher, if there is one.
    """
    return _SampledLoss.apply(  # type: ignore[no-any-return, no-untyped-call]
        hidden, target, target_bias, negatives, negative_bias, hits, scale, taught
    )


class _SampledLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, target: Tensor, target_bias: Tensor, negatives: Tensor,
        negative_bias: Tensor, hits: Tensor, scale: Tensor, taught: Taught | None,
    ) -> Tensor:  # fmt: skip
        N, S = hidden.shape[0], negatives.shape[0]
        loss = hidden.new_empty(N, dtype=torch.float32)
        d_own = hidden.new_empty(N, dtype=torch.float32)  # gradient of the target's own score
        d_hidden, d_negatives = torch.empty_like(hidden), torch.zeros_like(negatives).float()
        d_negative_bias = torch.zeros_like(negative_bias)
        own = (hidden.float() * target.float()).sum(-1) + target_bias  # (N,)
        their_own, their_bias, share = own, negative_bias, 0.0  # not read without a teacher
        if taught is not None:
            their_own = (taught.hidden.float() * taught.target.float()).sum(-1)
            their_own, their_bias = their_own + taught.target_bias, taught.negative_bias
            share = taught.weight
        for start in range(0, N, ROWS):
            rows = slice(start, start + ROWS)
            scores = hidden[rows] @ negatives.mT  # (rows, S), becomes its own gradient
            theirs = scores if taught is None else taught.hidden[rows] @ taught.negatives.mT
            _loss_kernel[(scores.shape[0],)](
                scores, negative_bias, own[rows], hits[rows], scale[rows], loss[rows], d_own[rows],
                theirs, their_bias, their_own[rows], share,
                S, taught is not None, triton.next_power_of_2(S), num_warps=16,
            )  # fmt: skip
            d_hidden[rows] = torch.addmm(
                d_own[rows, None].to(hidden.dtype) * target[rows], scores, negatives
            )
            d_negatives += (scores.mT @ hidden[rows]).float()
            d_negative_bias += scores.sum(0, dtype=torch.float32)
        d_target = d_own.unsqueeze(1).to(hidden.dtype) * hidden  # (N, P)
        ctx.save_for_backward(
            d_hidden, d_target, d_own, d_negatives.to(negatives.dtype), d_negative_bias
        )
        return loss.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_target, d_own, d_negatives, d_bias = ctx.saved_tensors
        d = d_loss.to(d_hidden.dtype)
        return (
            d_hidden * d,
            d_target * d,
            d_own * d_loss,
            d_negatives * d,
            d_bias * d_loss,
            None,
            None,
            None,
        )


@triton.jit
def _loss_kernel(
    scores, bias, own, hits, scale, loss, d_own, theirs, their_bias, their_own, share, S,
    IS_TAUGHT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    there = (column < S) & (column != tl.load(hits + row))
    offset = row.to(tl.int64) * S + column
    score = tl.load(scores + offset, mask=column < S, other=0.0).to(tl.float32)
    score += tl.load(bias + column, mask=column < S, other=0.0)
    score = tl.where(there, score, float("-inf"))
    mine = tl.load(own + row)
    top = tl.maximum(tl.max(score, 0), mine)
    powers = tl.exp(score - top)
    my_power = tl.exp(mine - top)
    total = tl.sum(powers, 0) + my_power
    weight = tl.load(scale + row)
    gradient = powers / total
    wanted, expected = 1.0, mine  # of the target, of what is wanted
    if IS_TAUGHT:
        said = tl.load(theirs + offset, mask=column < S, other=0.0).to(tl.float32)
        said += tl.load(their_bias + column, mask=column < S, other=0.0)
        said = tl.where(there, said, float("-inf"))
        their = tl.load(their_own + row)
        highest = tl.maximum(tl.max(said, 0), their)
        chances = tl.exp(said - highest)
        chance = tl.exp(their - highest)
        sum_of_all = tl.sum(chances, 0) + chance
        chances = share * chances / sum_of_all
        wanted = 1.0 - share + share * chance / sum_of_all
        expected = wanted * mine + tl.sum(tl.where(there, chances * score, 0.0), 0)
        gradient -= chances
    tl.store(loss + row, weight * (tl.log(total) + top - expected))
    tl.store(d_own + row, weight * (my_power / total - wanted))
    tl.store(scores + offset, (weight * gradient).to(scores.dtype.element_ty), mask=column < S)
