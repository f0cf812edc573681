"""The projected LSTM on a GPU, both directions at once, forward and backward by hand.

Per step and direction two matrix products remain: the recurrent one and the projection. Everything
else is one product over all steps (inputs, and all weight gradients) or one fused Triton kernel
(gates, cell, clip). The two directions have weights of their own and are stacked in front, so each
product is a batch of two. Tokens stand time first: a step is a plain slice.

    x (2, T, B, P), h (2, B, P), c (2, B, H)  ->  (2, T, B, P), (2, B, P), (2, B, H)

Matrices run in the dtype of x (bfloat16 in training); the cell is carried in float32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from relmo.errors import ConfigError
from relmo.kernels.device import on_its_device
from relmo.kernels.packing import StepRows
from relmo.kernels.reference import Clips, LstmWeights

BLOCK = 1024
PIECES, MANY_ROWS = 32, 256
"""Pieces of a long float32 product, up to so many rows."""


@on_its_device
def paired_lstm(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    weights: LstmWeights,
    clips: Clips,
) -> tuple[Tensor, Tensor, Tensor]:
    """Both directions of one layer, all steps: see `reference.paired_lstm`.

    The cell c is float32. No gradient flows into or out of the state: truncated back-propagation
    cuts there. Nor does any flow through a value at its clip.
    """
    if weights.projection is None:
        raise ConfigError("this kernel is for an LSTM with a projection; use the reference")
    outputs, last_h, last_c = _PairedLstm.apply(  # type: ignore[no-untyped-call]
        x, h, c, weights.input, weights.recurrent, weights.bias, weights.projection, clips
    )
    return outputs, last_h, last_c


class JoinedWeights(NamedTuple):
    """Weights of both directions as `read_packed` wants them."""

    joined: Tensor
    """(2, 4H, 2P) input and recurrent weights side by side: one product makes a step's gates."""
    bias: Tensor
    """(2, 4H), the forget gate's 1.0 in it."""
    projection: Tensor
    """(2, P, H)."""


def join_weights(weights: LstmWeights) -> JoinedWeights:
    """Stacked weights, as `paired_lstm` takes them, made ready for reading."""
    assert weights.projection is not None
    joined = torch.cat([weights.input, weights.recurrent], 2)  # (2, 4H, 2P)
    return JoinedWeights(joined, weights.bias, weights.projection)


@on_its_device
def read_packed(
    x: Tensor,
    plan: StepRows,
    h: Tensor,
    c: Tensor,
    weights: JoinedWeights,
    clips: Clips,
) -> tuple[Tensor, Tensor, Tensor]:
    """Read without gradients: tokens without padding, step after step, longest sentence first.

    What a step reads, its input and the output before it, stand side by side, so its gates are one
    product, written once and read once. The outputs of a step are written where the next one reads
    them: starting a kernel costs the host as much as a small step costs the device.

    Args:
        x: (2, S, P), each direction in its own reading order.
        plan: where each step reads and writes, on the device.
        h: (2, B, P) and
        c: (2, B, H), float32, before the first step.
        weights: of both directions.
        clips: of this layer.

    Returns:
        Outputs (2, S, P), and h and c after each sentence's last token.
    """
    S, P, H, most = x.shape[1], x.shape[2], c.shape[2], len(plan.last)
    both = x.new_empty(2, most + S, 2 * P)  # inputs, and beside them the outputs a step before
    both[:, plan.inputs, :P] = x
    before = both[..., P:]  # (2, most + S, P)
    before[:, :most] = h[:, :most]
    h, c = h.clone(), c.clone()
    gates, m = x.new_empty(2, most, 4 * H), x.new_empty(2, most, H)  # for each step again
    to_gates, to_output = weights.joined.mT, weights.projection.mT
    for n, first, after in plan.steps:
        gate, squashed = gates.narrow(1, 0, n), m.narrow(1, 0, n)  # (2, n, ·)
        torch.bmm(both.narrow(1, first, n), to_gates, out=gate)
        step_forward(gate, c, c, squashed, clips.cell, weights.bias)
        output = before.narrow(1, after, n)  # (2, n, P)
        torch.bmm(squashed, to_output, out=output)
        if clips.output is not None:
            output.clamp_(-clips.output, clips.output)
    y = before[:, most:]  # (2, S, P)
    h[:, :most] = y[:, plan.last]
    return y, h, c


class _PairedLstm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        h: Tensor,
        c: Tensor,
        w_input: Tensor,
        w_recurrent: Tensor,
        bias: Tensor,
        w_projection: Tensor,
        clips: Clips,
    ) -> tuple[Tensor, Tensor, Tensor]:
        _, T, B, P = x.shape
        H = w_projection.shape[2]
        flat = x.reshape(2, T * B, P)
        gates = torch.baddbmm(bias.unsqueeze(1), flat, w_input.mT).view(2, T, B, 4 * H)
        hs = x.new_empty(2, T + 1, B, P)
        cs = c.new_empty(2, T + 1, B, H)
        ms = x.new_empty(2, T, B, H)  # the cell's output before the projection
        hs[:, 0], cs[:, 0] = h, c
        for t in range(T):
            gate = gates[:, t]  # (2, B, 4H), the sums; activations are made again going back
            gate.baddbmm_(hs[:, t], w_recurrent.mT)  # in place: `out=` would copy it first
            step_forward(gate, cs[:, t], cs[:, t + 1], ms[:, t], clips.cell)
            torch.bmm(ms[:, t], w_projection.mT, out=hs[:, t + 1])
            if clips.output is not None:
                hs[:, t + 1].clamp_(-clips.output, clips.output)
        ctx.save_for_backward(x, gates, hs, cs, ms, w_input, w_recurrent, w_projection)
        ctx.clips = clips
        ctx.is_spent = False
        last_h, last_c = hs[:, T].clone(), cs[:, T].clone()
        ctx.mark_non_differentiable(last_h, last_c)
        return hs[:, 1:], last_h, last_c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.is_spent:  # what it would read now are gradients, no longer gate sums
            raise RuntimeError("this LSTM's backward pass runs once; it overwrites its memory")
        ctx.is_spent = True
        x, gates, hs, cs, ms, w_input, w_recurrent, w_projection = ctx.saved_tensors
        clips = ctx.clips
        _, T, B, P = x.shape
        H = ms.shape[-1]
        d_hs = d_outputs.clone(memory_format=torch.contiguous_format)  # (2, T, B, P)
        d_c = torch.zeros_like(cs[:, 0])  # (2, B, H) float32
        d_m = torch.empty_like(ms[:, 0])  # (2, B, H)
        d_gates = gates  # written over the sums, step by step
        for t in reversed(range(T)):
            d_h = d_hs[:, t]
            if t < T - 1:
                add_product(d_h, d_gates[:, t + 1], w_recurrent)
            if clips.output is not None:
                d_h.mul_(hs[:, t + 1].abs() < clips.output)
            torch.bmm(d_h, w_projection, out=d_m)
            step_backward(d_gates[:, t], cs[:, t], cs[:, t + 1], d_m, d_c, clips.cell)
        flat = d_gates.view(2, T * B, 4 * H)
        d_x = torch.bmm(flat, w_input).view_as(x)
        d_w_input = torch.bmm(flat.mT, x.reshape(2, T * B, P))
        d_w_recurrent = torch.bmm(flat.mT, hs[:, :T].reshape(2, T * B, P))
        d_bias = flat.sum(1, dtype=torch.float32).to(x.dtype)
        d_w_projection = torch.bmm(d_hs.view(2, T * B, P).mT, ms.view(2, T * B, H))
        return d_x, None, None, d_w_input, d_w_recurrent, d_bias, d_w_projection, None


def add_product(sums: Tensor, x: Tensor, weight: Tensor) -> None:
    """Add x (2, B, K) times weight (2, K, P) to sums (2, B, P).

    A float32 product of few rows and columns with a long K would keep a few of the GPU's processors
    busy for long, ten times as long as K in pieces; for bfloat16 cuBLAS takes pieces itself.
    """
    B, K, P = x.shape[1], x.shape[2], weight.shape[2]
    if x.dtype != torch.float32 or B > MANY_ROWS or K % PIECES:
        sums.baddbmm_(x, weight)
        return
    pieces = x.view(2, B, PIECES, K // PIECES).transpose(1, 2)  # (2, PIECES, B, K / PIECES)
    sums.add_((pieces @ weight.view(2, PIECES, K // PIECES, P)).sum(1))


def step_forward(
    gates: Tensor,
    c: Tensor,
    new_c: Tensor,
    m: Tensor,
    cell_clip: float | None,
    bias: Tensor | None = None,
) -> None:
    """Gate sums (2, n, 4H) -> the new cell and its output (2, n, H), of the first n rows.

    A bias (2, 4H) is added to the sums on the way; None where they hold it already.
    """
    B, H = gates.shape[1], c.shape[2]
    _forward_kernel[(triton.cdiv(H, BLOCK), 2 * B)](
        gates, c, new_c, m, gates if bias is None else bias,
        gates.stride(0), c.stride(0), m.stride(0), B, H,
        cell_clip or 0.0, cell_clip is not None, bias is not None, BLOCK,
    )  # fmt: skip


def step_backward(
    gates: Tensor, c: Tensor, new_c: Tensor, d_m: Tensor, d_c: Tensor, cell_clip: float | None
) -> None:
    """Gate sums -> their gradients, in place; carries the cell's gradient one step back."""
    _, B, H = c.shape
    _backward_kernel[(triton.cdiv(H, BLOCK), 2 * B)](
        gates, c, new_c, d_m, d_c, gates.stride(0), c.stride(0), B, H,
        cell_clip or 0.0, cell_clip is not None, BLOCK,
    )  # fmt: skip


@triton.jit
def tanh(x):  # noqa: ANN201 - Triton's own language has no types
    """Triton's language has none for all devices."""
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def _forward_kernel(
    gates, c, new_c, m, bias, gates_stride, c_stride, m_stride, B, H, clip,
    CLIPS: tl.constexpr, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(1)
    direction, b = row // B, row % B
    there = column < H
    gate = gates + direction.to(tl.int64) * gates_stride + b.to(tl.int64) * 4 * H + column
    i = tl.load(gate, mask=there, other=0.0).to(tl.float32)
    f = tl.load(gate + H, mask=there, other=0.0).to(tl.float32)
    g = tl.load(gate + 2 * H, mask=there, other=0.0).to(tl.float32)
    o = tl.load(gate + 3 * H, mask=there, other=0.0).to(tl.float32)
    if HAS_BIAS:
        own = bias + direction * 4 * H + column
        i += tl.load(own, mask=there, other=0.0).to(tl.float32)
        f += tl.load(own + H, mask=there, other=0.0).to(tl.float32)
        g += tl.load(own + 2 * H, mask=there, other=0.0).to(tl.float32)
        o += tl.load(own + 3 * H, mask=there, other=0.0).to(tl.float32)
    i, f, g, o = tl.sigmoid(i), tl.sigmoid(f), tanh(g), tl.sigmoid(o)
    cell = direction.to(tl.int64) * c_stride + b.to(tl.int64) * H + column
    new = f * tl.load(c + cell, mask=there, other=0.0) + i * g
    if CLIPS:
        new = tl.minimum(tl.maximum(new, -clip), clip)
    tl.store(new_c + cell, new, mask=there)
    output = m + direction.to(tl.int64) * m_stride + b.to(tl.int64) * H + column
    tl.store(output, (o * tanh(new)).to(m.dtype.element_ty), mask=there)


@triton.jit
def _backward_kernel(
    gates, c, new_c, d_m, d_c, gates_stride, c_stride, B, H, clip,
    CLIPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(1)
    direction, b = row // B, row % B
    there = column < H
    gate = gates + direction.to(tl.int64) * gates_stride + b.to(tl.int64) * 4 * H + column
    i = tl.sigmoid(tl.load(gate, mask=there, other=0.0).to(tl.float32))
    f = tl.sigmoid(tl.load(gate + H, mask=there, other=0.0).to(tl.float32))
    g = tanh(tl.load(gate + 2 * H, mask=there, other=0.0).to(tl.float32))
    o = tl.sigmoid(tl.load(gate + 3 * H, mask=there, other=0.0).to(tl.float32))
    cell = direction.to(tl.int64) * c_stride + b.to(tl.int64) * H + column
    new = tl.load(new_c + cell, mask=there, other=0.0)
    old = tl.load(c + cell, mask=there, other=0.0)
    plain = row.to(tl.int64) * H + column  # d_m and d_c are contiguous
    d_output = tl.load(d_m + plain, mask=there, other=0.0).to(tl.float32)
    squashed = tanh(new)
    d_new = tl.load(d_c + plain, mask=there, other=0.0) + d_output * o * (1.0 - squashed * squashed)
    if CLIPS:
        d_new = tl.where(tl.abs(new) < clip, d_new, 0.0)
    tl.store(d_c + plain, d_new * f, mask=there)
    kind = gates.dtype.element_ty
    tl.store(gate, (d_new * g * i * (1.0 - i)).to(kind), mask=there)
    tl.store(gate + H, (d_new * old * f * (1.0 - f)).to(kind), mask=there)
    tl.store(gate + 2 * H, (d_new * i * (1.0 - g * g)).to(kind), mask=there)
    tl.store(gate + 3 * H, (d_output * squashed * o * (1.0 - o)).to(kind), mask=there)
