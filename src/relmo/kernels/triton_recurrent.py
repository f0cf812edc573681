"""A recurrent layer on a GPU, LSTM or GRU, all steps of all sentences in one kernel each way.

cuDNN starts several kernels for each step; for the narrow layers of task models, whose steps take
less time than their start, that is all it does. Here one program walks along sixteen sentences in
one direction, step by step, and reads the recurrent weights from the cache.

N tokens stand sentence after sentence, without padding. R sentences, D directions, H features.

    products (N, D, GH) of the inputs, + h W of the step before -> gates -> outputs (N, D, H)

Gates are kept for the way back as four blocks; a GRU fills the fourth since the products of its
candidate with the input and with the state before are apart.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from relmo.kernels.device import on_its_device
from relmo.kernels.triton_lstm import tanh

ROWS = 16
"""Sentences of one program: the fewest that a matrix product on a GPU takes."""
TILE = 64
"""Features of one product; weights are filled up to a multiple of it."""
BLOCKS = 4
"""Of gates that are kept."""


@on_its_device
def recurrent_layer(
    products: Tensor,
    weight: Tensor,
    bias: Tensor,
    starts: Tensor,
    lengths: Tensor,
    exact: bool = False,
) -> Tensor:
    """Outputs (N, D, H) of one layer; direction 0 reads from the left, direction 1 from the right.

    Args:
        products: (N, D, GH) of tokens with the input weights, biases added; float32. G gates in
            torch's order: 4 of an LSTM, 3 of a GRU.
        weight: (D, GH, H) of the step before.
        bias: (D, H) of a GRU's candidate, of the step before; an LSTM has none: (D, 0).
        starts: (R,) int32, place of each sentence's first token.
        lengths: (R,) int32, its tokens, which may be none.
        exact: multiply float32; else float16 forward, bfloat16 backward, sums in float32.
    """
    return _RecurrentLayer.apply(  # type: ignore[no-any-return, no-untyped-call]
        products.contiguous(), weight, bias.contiguous(), starts, lengths, exact
    )


class _RecurrentLayer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, products: Tensor, weight: Tensor, bias: Tensor, starts: Tensor, lengths: Tensor,
        exact: bool,
    ) -> Tensor:  # fmt: skip
        N, D, GH = products.shape
        H = weight.shape[2]
        is_gru = GH == 3 * H
        outputs, cells = products.new_empty(N, D, H), products.new_empty(N, D, 0 if is_gru else H)
        gates = products.new_empty(N, D, BLOCKS * H)
        tiles = _tiles(weight, torch.float32 if exact else torch.float16).mT.contiguous()
        _forward[(triton.cdiv(len(starts), ROWS), D)](
            products, tiles, bias, starts, lengths, outputs, cells, gates,
            len(starts), D, H, tiles.shape[-1], is_gru, ROWS, TILE, num_warps=8, num_stages=3,
        )  # fmt: skip
        ctx.save_for_backward(weight, starts, lengths, outputs, cells, gates)
        ctx.exact = exact
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> tuple[Tensor | None, ...]:
        weight, starts, lengths, outputs, cells, gates = ctx.saved_tensors
        N, D, H = outputs.shape
        G, R = weight.shape[1] // H, len(starts)
        is_gru = G == 3
        d_gates = torch.empty_like(gates)
        from_after = gates.new_zeros(D, R, H)  # gradient of each sentence's state, step by step
        carried = gates.new_zeros(D, R, H)  # of its cell; in a GRU what passes by the gates
        tiles = _tiles(weight, torch.float32 if ctx.exact else torch.bfloat16)
        _backward[(triton.cdiv(R, ROWS), D)](
            d_outputs.contiguous(), tiles, starts, lengths, outputs, cells, gates, d_gates,
            from_after, carried,
            R, D, H, tiles.shape[-1], is_gru, ROWS, TILE, num_warps=8, num_stages=3,
        )  # fmt: skip
        before = _before(outputs, starts, lengths)  # (N, D, H)
        d_gates = d_gates.view(N, D, BLOCKS, H)
        d_products = d_gates[:, :, [0, 1, 3]] if is_gru else d_gates  # (N, D, G, H)
        d_weight = torch.einsum("ndx, ndh -> dxh", d_gates[:, :, :G].flatten(2), before)
        d_bias = d_gates[:, :, 2].sum(0) if is_gru else gates.new_zeros(D, 0)
        return d_products.flatten(2), d_weight, d_bias, None, None, None


def _tiles(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """Weights (D, GH, H) as squares (D, G, W, W), filled up with zeros to whole tiles."""
    D, GH, H = weight.shape
    wide = triton.cdiv(H, TILE) * TILE
    tiles = weight.new_zeros(D, GH // H, wide, wide, dtype=dtype)
    tiles[:, :, :H, :H] = weight.view(D, GH // H, H, H)
    return tiles


def _before(outputs: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
    """The state before each token, 0 at a sentence's beginning: (N, D, H) -> (N, D, H).

    A sentence without words points at its neighbours' ends, which are 0 anyway, or at the row that
    is one too many: to leave it out would mean to wait for the device.
    """
    N, D, H = outputs.shape
    before = outputs.new_zeros(N + 1, D, H)
    before[1:N, 0] = outputs[:-1, 0]
    before[: N - 1, 1:] = outputs[1:, 1:]
    before[starts.long(), 0] = 0
    before[(starts + lengths).long() - 1, 1:] = 0
    return before[:N]


@triton.jit
def _forward(
    products, weight, bias, starts, lengths, outputs, cells, gates,
    R, D, H, W, IS_GRU: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    side = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    start = tl.load(starts + row, mask=row < R, other=0).to(tl.int64)
    length = tl.load(lengths + row, mask=row < R, other=0)
    G: tl.constexpr = 3 if IS_GRU else 4
    weight += side.to(tl.int64) * G * W * W  # (G, W, W): [gate, before, after]
    feature = tl.arange(0, TILE)
    across = tl.cdiv(H, TILE)
    for step in range(tl.max(length, 0)):
        goes_on = step < length
        place = start + tl.where(side == 0, step, length - 1 - step)
        at = (place * D + side) * H  # (ROWS,)
        before = (tl.where(side == 0, place - 1, place + 1) * D + side) * H
        has_before = (goes_on & (length - step < length))[:, None]  # step > 0, of each row
        a = tl.zeros((ROWS, TILE), tl.float32)
        b = tl.zeros((ROWS, TILE), tl.float32)
        c = tl.zeros((ROWS, TILE), tl.float32)
        d = tl.zeros((ROWS, TILE), tl.float32)
        for number in range(across * across):  # tiles, in one loop: the next is on its way
            from_ = (number % across) * TILE + feature
            after = (number // across) * TILE + feature
            seen = has_before & (from_ < H)[None, :]
            h = tl.load(outputs + before[:, None] + from_[None, :], mask=seen, other=0.0)
            h = h.to(weight.dtype.element_ty)
            tile = weight + from_[:, None] * W + after[None, :]
            a = tl.dot(h, tl.load(tile), a, input_precision="ieee")
            b = tl.dot(h, tl.load(tile + W * W), b, input_precision="ieee")
            c = tl.dot(h, tl.load(tile + 2 * W * W), c, input_precision="ieee")
            if not IS_GRU:
                d = tl.dot(h, tl.load(tile + 3 * W * W), d, input_precision="ieee")
            if number % across == across - 1:  # all that these features get from the state before
                there = goes_on[:, None] & (after < H)[None, :]
                x = products + G * at[:, None] + after[None, :]
                out = at[:, None] + after[None, :]
                kept = gates + 4 * at[:, None] + after[None, :]
                seen = has_before & (after < H)[None, :]
                a = tl.sigmoid(a + tl.load(x, mask=there, other=0.0))
                b = tl.sigmoid(b + tl.load(x + H, mask=there, other=0.0))
                if IS_GRU:
                    d = c + tl.load(bias + side * H + after, mask=after < H, other=0.0)[None, :]
                    c = tanh(tl.load(x + 2 * H, mask=there, other=0.0) + a * d)
                    old = tl.load(outputs + before[:, None] + after[None, :], mask=seen, other=0.0)
                    h_new = (1 - b) * c + b * old
                else:
                    c = tanh(c + tl.load(x + 2 * H, mask=there, other=0.0))
                    d = tl.sigmoid(d + tl.load(x + 3 * H, mask=there, other=0.0))
                    old = tl.load(cells + before[:, None] + after[None, :], mask=seen, other=0.0)
                    cell = b * old + a * c
                    h_new = d * tanh(cell)
                    tl.store(cells + out, cell, mask=there)
                tl.store(outputs + out, h_new, mask=there)
                tl.store(kept, a, mask=there)
                tl.store(kept + H, b, mask=there)
                tl.store(kept + 2 * H, c, mask=there)
                tl.store(kept + 3 * H, d, mask=there)
                a *= 0.0  # the next features begin anew; all are numbers
                b *= 0.0
                c *= 0.0
                d *= 0.0
        tl.debug_barrier()  # the next step reads what other threads have stored


@triton.jit
def _backward(
    d_outputs, weight, starts, lengths, outputs, cells, gates, d_gates, from_after, carried,
    R, D, H, W, IS_GRU: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    side = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    start = tl.load(starts + row, mask=row < R, other=0).to(tl.int64)
    length = tl.load(lengths + row, mask=row < R, other=0)
    G: tl.constexpr = 3 if IS_GRU else 4
    weight += side.to(tl.int64) * G * W * W  # (G, W, W): [gate, after, before]
    feature = tl.arange(0, TILE)
    across = tl.cdiv(H, TILE)
    own = (side * R + row) * H  # (ROWS,): of the sentence's state
    steps = tl.max(length, 0)
    for back in range(steps):
        step = steps - 1 - back
        goes_on = step < length
        place = start + tl.where(side == 0, step, length - 1 - step)
        at = (place * D + side) * H
        before = (tl.where(side == 0, place - 1, place + 1) * D + side) * H
        has_before = (goes_on & (length - step < length))[:, None]  # step > 0, of each row
        for n in range(0, H, TILE):
            here = n + feature
            there = goes_on[:, None] & (here < H)[None, :]
            seen = has_before & (here < H)[None, :]
            out = at[:, None] + here[None, :]
            state = own[:, None] + here[None, :]
            kept = gates + 4 * at[:, None] + here[None, :]
            found = d_gates + 4 * at[:, None] + here[None, :]
            a = tl.load(kept, mask=there, other=0.0)
            b = tl.load(kept + H, mask=there, other=0.0)
            c = tl.load(kept + 2 * H, mask=there, other=0.0)
            d = tl.load(kept + 3 * H, mask=there, other=0.0)
            d_h = tl.load(d_outputs + out, mask=there, other=0.0)
            d_h += tl.load(from_after + state, mask=there, other=0.0)
            if IS_GRU:
                old = tl.load(outputs + before[:, None] + here[None, :], mask=seen, other=0.0)
                d_c = d_h * (1 - b) * (1 - c * c)
                tl.store(found, d_c * d * a * (1 - a), mask=there)
                tl.store(found + H, d_h * (old - c) * b * (1 - b), mask=there)
                tl.store(found + 2 * H, d_c * a, mask=there)
                tl.store(found + 3 * H, d_c, mask=there)
                tl.store(carried + state, d_h * b, mask=there)
            else:
                old = tl.load(cells + before[:, None] + here[None, :], mask=seen, other=0.0)
                t = tanh(tl.load(cells + out, mask=there, other=0.0))
                d_cell = d_h * d * (1 - t * t) + tl.load(carried + state, mask=there, other=0.0)
                tl.store(found, d_cell * c * a * (1 - a), mask=there)
                tl.store(found + H, d_cell * old * b * (1 - b), mask=there)
                tl.store(found + 2 * H, d_cell * a * (1 - c * c), mask=there)
                tl.store(found + 3 * H, d_h * t * d * (1 - d), mask=there)
                tl.store(carried + state, d_cell * b, mask=there)
        tl.debug_barrier()
        total = tl.zeros((ROWS, TILE), tl.float32)
        for number in range(across * across):
            from_ = (number % across) * TILE + feature
            here = (number // across) * TILE + feature
            known = goes_on[:, None] & (from_ < H)[None, :]
            found = d_gates + 4 * at[:, None] + from_[None, :]
            tile = weight + from_[:, None] * W + here[None, :]
            for gate in tl.static_range(G):
                g = tl.load(found + gate * H, mask=known, other=0.0)
                g = g.to(weight.dtype.element_ty)
                w = tl.load(tile + gate * W * W)
                total = tl.dot(g, w, total, input_precision="ieee")
            if number % across == across - 1:
                there = goes_on[:, None] & (here < H)[None, :]
                state = own[:, None] + here[None, :]
                if IS_GRU:
                    total += tl.load(carried + state, mask=there, other=0.0)
                tl.store(from_after + state, total, mask=there)
                total *= 0.0
        tl.debug_barrier()
