"""Training on a CPU: the projected LSTM and the sampled softmax, forward and backward by hand.

Plain autograd keeps some twenty tensors for each step of the LSTM, makes a gradient of the weights
at every step, and several copies of all scores of the softmax. Here the LSTM keeps gates, cells and
outputs once, and its weight gradients are one product over all steps; of the scores a bounded
number exists at a time, and they become their own gradients.

Shapes are those of `reference.paired_lstm` and of `triton_softmax.sampled_loss`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from relmo.kernels.reference import Clips, LstmWeights
from relmo.kernels.threads import run_both

SCORES = 1 << 22
"""Scores held at a time."""


def paired_lstm(
    x: Tensor, h: Tensor, c: Tensor, weights: LstmWeights, clips: Clips
) -> tuple[Tensor, Tensor, Tensor]:
    """Both directions of one layer, all steps, each in a thread: see `reference.paired_lstm`.

    No gradient flows through a value at its clip. Backward runs once: it overwrites its memory.
    """
    outputs, last_h, last_c = _PairedLstm.apply(x, h, c, *weights, clips)  # type: ignore[no-untyped-call]
    return outputs, last_h, last_c


class _PairedLstm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch has no type for it
        x: Tensor,
        h: Tensor,
        c: Tensor,
        w_input: Tensor,
        w_recurrent: Tensor,
        bias: Tensor,
        w_projection: Tensor | None,
        clips: Clips,
    ) -> tuple[Tensor, Tensor, Tensor]:
        _, T, B, _ = x.shape
        P, H = h.shape[2], c.shape[2]
        gates = x.new_empty(2, T, B, 4 * H)
        hs, cs = x.new_empty(2, T + 1, B, P), x.new_empty(2, T + 1, B, H)
        ms = hs[:, 1:] if w_projection is None else x.new_empty(2, T, B, H)  # before the projection
        hs[:, 0], cs[:, 0] = h, c

        def read(d: int) -> None:
            torch.addmm(bias[d], x[d].flatten(0, 1), w_input[d].t(), out=gates[d].flatten(0, 1))
            projection = None if w_projection is None else w_projection[d].t()
            for t in range(T):
                gates[d, t].addmm_(hs[d, t], w_recurrent[d].t())
                _step(gates[d, t], cs[d, t], cs[d, t + 1], ms[d, t], clips.cell)
                if projection is not None:
                    torch.mm(ms[d, t], projection, out=hs[d, t + 1])
                    if clips.output is not None:
                        hs[d, t + 1].clamp_(-clips.output, clips.output)

        run_both(partial(read, 0), partial(read, 1))
        ctx.save_for_backward(x, gates, hs, cs, ms, w_input, w_recurrent, w_projection)
        ctx.clips, ctx.is_spent = clips, False
        last_h, last_c = hs[:, T].clone(), cs[:, T].clone()
        ctx.mark_non_differentiable(last_h, last_c)
        return hs[:, 1:], last_h, last_c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        if ctx.is_spent:  # what it would read now are gradients, no longer gates
            raise RuntimeError("this LSTM's backward pass runs once; it overwrites its memory")
        ctx.is_spent = True
        x, gates, hs, cs, ms, w_input, w_recurrent, w_projection = ctx.saved_tensors
        clips = ctx.clips
        T = x.shape[1]
        d_hs = d_outputs.clone(memory_format=torch.contiguous_format)  # (2, T, B, P)
        d_x = torch.empty_like(x, memory_format=torch.contiguous_format)
        d_input, d_recurrent = torch.empty_like(w_input), torch.empty_like(w_recurrent)
        d_bias = w_input.new_empty(w_input.shape[:2])
        d_projection = None if w_projection is None else torch.empty_like(w_projection)

        def read_back(d: int) -> None:
            d_c = torch.zeros_like(cs[d, 0])  # (B, H)
            for t in reversed(range(T)):
                d_m = d_h = d_hs[d, t]  # (B, P)
                if t < T - 1:
                    d_h.addmm_(gates[d, t + 1], w_recurrent[d])
                if w_projection is not None:
                    if clips.output is not None:
                        d_h.mul_(hs[d, t + 1].abs() < clips.output)
                    d_m = d_h @ w_projection[d]  # (B, H)
                _step_back(gates[d, t], cs[d, t], cs[d, t + 1], d_m, d_c, clips.cell)
            flat = gates[d].flatten(0, 1)  # (T B, 4H), now the gradients of the sums
            torch.mm(flat, w_input[d], out=d_x[d].flatten(0, 1))
            torch.mm(flat.t(), x[d].flatten(0, 1), out=d_input[d])
            torch.mm(flat.t(), hs[d, :T].flatten(0, 1), out=d_recurrent[d])
            torch.sum(flat, 0, out=d_bias[d])
            if d_projection is not None:
                torch.mm(d_hs[d].flatten(0, 1).t(), ms[d].flatten(0, 1), out=d_projection[d])

        run_both(partial(read_back, 0), partial(read_back, 1))
        return d_x, None, None, d_input, d_recurrent, d_bias, d_projection, None


def _step(gates: Tensor, c: Tensor, new_c: Tensor, m: Tensor, clip: float | None) -> None:
    """Sums of the gates (B, 4H) -> their activations, in place; the new cell and its output."""
    H = c.shape[1]
    i, f, g, o = gates.chunk(4, 1)  # each (B, H)
    gates[:, : 2 * H].sigmoid_()  # i and f
    torch.mul(f, c, out=new_c).addcmul_(i, g.tanh_())
    if clip is not None:
        new_c.clamp_(-clip, clip)
    torch.tanh(new_c, out=m).mul_(o.sigmoid_())


def _step_back(
    gates: Tensor, c: Tensor, new_c: Tensor, d_m: Tensor, d_c: Tensor, clip: float | None
) -> None:
    """Activations (B, 4H) -> gradients of the gates' sums, in place; d_c moves one step back."""
    i, f, g, o = gates.chunk(4, 1)  # each (B, H)
    squashed = torch.tanh(new_c)  # (B, H)
    d_o = d_m * squashed
    d_c.addcmul_(d_m * o, squashed.square_().neg_().add_(1))
    if clip is not None:
        d_c.mul_(new_c.abs() < clip)
    d_i, d_g, d_f = d_c * g, d_c * i, d_c * c
    d_c.mul_(f)
    g.square_().neg_().add_(1).mul_(d_g)
    sigmoids = ((i, d_i), (f, d_f), (o, d_o))
    for gate, d_gate in sigmoids:
        torch.addcmul(gate, gate, gate, value=-1, out=gate).mul_(d_gate)  # s (1 - s) d


def sampled_loss(
    hidden: Tensor, target: Tensor, target_bias: Tensor, negatives: Tensor,
    negative_bias: Tensor, hits: Tensor, scale: Tensor,
) -> Tensor:  # fmt: skip
    """The sum over tokens of scale * -log p(target): see `triton_softmax.sampled_loss`."""
    return _SampledLoss.apply(  # type: ignore[no-any-return, no-untyped-call]
        hidden, target, target_bias, negatives, negative_bias, hits, scale
    )


class _SampledLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, target: Tensor, target_bias: Tensor, negatives: Tensor,  # noqa: ANN401
        negative_bias: Tensor, hits: Tensor, scale: Tensor,
    ) -> Tensor:  # fmt: skip
        N, S = len(hidden), len(negatives)
        rows = max(1, SCORES // S)
        own = (hidden * target).sum(1).add_(target_bias)  # (N,)
        total = torch.empty_like(own)  # (N,) log of the sum over the target and the negatives
        d_hidden, d_negatives = torch.empty_like(hidden), torch.zeros_like(negatives)
        d_bias = torch.zeros_like(negative_bias)
        for first in range(0, N, rows):
            here = slice(first, first + rows)
            scores = torch.addmm(negative_bias, hidden[here], negatives.t())  # (rows, S)
            is_hit = (hits[here] >= 0).nonzero().squeeze(1)
            scores[is_hit, hits[here][is_hit].long()] = float("-inf")  # its own word is no negative
            sums = torch.logsumexp(scores, 1)  # (rows,)
            total[here] = torch.logaddexp(sums, own[here])
            scores.sub_(total[here].unsqueeze(1)).exp_().mul_(scale[here].unsqueeze(1))
            torch.mm(scores, negatives, out=d_hidden[here])
            d_negatives.addmm_(scores.t(), hidden[here])
            d_bias += scores.sum(0)
        d_own = (own - total).exp_().sub_(1).mul_(scale)  # (N,)
        d_hidden.addcmul_(d_own.unsqueeze(1), target)
        d_target = d_own.unsqueeze(1) * hidden  # (N, P)
        ctx.save_for_backward(d_hidden, d_target, d_own, d_negatives, d_bias)
        return (total - own).mul_(scale).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        return (*(gradient * d_loss for gradient in ctx.saved_tensors), None, None)
