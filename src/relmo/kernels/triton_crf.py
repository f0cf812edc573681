"""All sequences of tags at once, on a GPU: log of their sum and its gradients in one kernel.

A plain loop starts some twenty small kernels for each token, forward and backward. Here one program
walks along a sentence and back again. Forward it adds up the sequences that end in each tag; on the
way back, those that go on from each tag. Both together are the chance of each tag and of each step,
which are the gradients.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from relmo.kernels.device import on_its_device


@on_its_device
def log_sum(
    scores: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> Tensor:
    """Log of the sum of exp(score) over all sequences of tags, (B,), all in float32.

    Args:
        scores: (B, T, K) of the tags.
        lengths: (B,) tokens of each sentence, from 1 on.
        transitions: (K, K) score of each step [before, after].
        start: (K,) score of each tag as the first.
        end: (K,) score of each tag as the last.
    """
    return _LogSum.apply(  # type: ignore[no-any-return, no-untyped-call]
        scores.contiguous(), lengths, transitions.contiguous(), start, end
    )


class _LogSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor
    ) -> Tensor:
        B, T, K = scores.shape
        total = scores.new_empty(B)
        ended = torch.empty_like(scores)  # (B, T, K): sequences up to each token, by their last tag
        d_scores, d_steps = torch.zeros_like(scores), scores.new_empty(B, K, K)
        BLOCK = max(16, triton.next_power_of_2(K))
        _walk[(B,)](
            scores, lengths, transitions, start, end, ended, total, d_scores, d_steps, T, K, BLOCK,
            num_warps=1 if BLOCK == 16 else 4,
        )  # fmt: skip
        last = d_scores.gather(1, (lengths - 1)[:, None, None].expand(B, 1, K)).squeeze(1)
        ctx.save_for_backward(d_scores, d_steps, last)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor | None, ...]:
        d_scores, d_steps, last = ctx.saved_tensors  # (B, T, K), (B, K, K), (B, K)
        return (
            d_scores * d[:, None, None],
            None,
            torch.einsum("b, bij -> ij", d, d_steps),
            d @ d_scores[:, 0],
            d @ last,
        )


@triton.jit
def _log_of_sum(scores, AXIS: tl.constexpr):
    top = tl.max(scores, AXIS)
    return tl.log(tl.sum(tl.exp(scores - tl.expand_dims(top, AXIS)), AXIS)) + top


@triton.jit
def _walk(
    scores, lengths, transitions, start, end, ended, total, d_scores, d_steps, T, K,
    BLOCK: tl.constexpr,
):  # fmt: skip
    NONE = -1e30  # of tags past K; -inf less -inf would be no number
    row = tl.program_id(0).to(tl.int64)
    tag = tl.arange(0, BLOCK)
    there = tag < K
    both = there[:, None] & there[None, :]
    square = tag[:, None] * K + tag[None, :]  # [before, after]
    step = tl.load(transitions + square, mask=both, other=NONE)
    last = tl.load(end + tag, mask=there, other=NONE)
    here = row * T * K + tag
    length = tl.load(lengths + row).to(tl.int32)

    so_far = tl.load(scores + here, mask=there, other=NONE)
    so_far += tl.load(start + tag, mask=there, other=NONE)
    above = 0.0  # taken from `so_far` again and again: small numbers keep their digits
    for t in range(1, length):
        top = tl.max(so_far, 0)
        so_far, above = so_far - top, above + top
        tl.store(ended + here + (t - 1) * K, so_far, mask=there)
        so_far = _log_of_sum(so_far[:, None] + step, 0)
        so_far += tl.load(scores + here + t * K, mask=there, other=NONE)
    whole = _log_of_sum(so_far + last, 0)
    tl.store(total + row, whole + above)
    tl.store(d_scores + here + (length - 1) * K, tl.exp(so_far + last - whole), mask=there)

    tl.debug_barrier()  # what one thread has stored in `ended`, another reads below
    d_step = tl.zeros((BLOCK, BLOCK), tl.float32)
    to_come = last
    for back in range(1, length):
        t = length - 1 - back
        after = to_come + tl.load(scores + here + (t + 1) * K, mask=there, other=NONE)
        ways = step + (after - tl.max(after, 0))[None, :]
        before = tl.load(ended + here + t * K, mask=there, other=NONE)
        to_come = _log_of_sum(ways, 1)
        whole = _log_of_sum(before + to_come, 0)
        d_step += tl.exp(before[:, None] + ways - whole)
        tl.store(d_scores + here + t * K, tl.exp(before + to_come - whole), mask=there)
    tl.store(d_steps + row * K * K + square, d_step, mask=both)
