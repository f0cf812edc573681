"""A projected LSTM layer on a CPU: the reference's numbers, several times faster.

Weights are packed once. Sentences stand longest first, so step t concerns the first alive[t] rows
and finished sentences cost nothing; the tokens of a batch are one matrix without padding, step
after step. Inputs of many steps are multiplied at once, gates are worked on where they lie.

Shapes: S tokens, B sentences, n of them alive at a step, P output width, H cell width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from relmo.kernels.cpu_products import Precision, make_product
from relmo.kernels.packing import blocks_of
from relmo.kernels.reference import LstmWeights, with_forget_bias

BLOCK_ROWS = 256
"""Tokens whose inputs are multiplied at once: their gates stay in the cache until they are used."""


class PackedLstm:
    """One layer of one direction.

    Args:
        weights: as the reference takes them.
        cell_clip: bound on the cell, or None.
        output_clip: bound on the projected output, or None.
        precision: of the products; all else is float32.
    """

    def __init__(
        self,
        weights: LstmWeights,
        cell_clip: float | None,
        output_clip: float | None,
        precision: Precision,
    ) -> None:
        self.cell_clip, self.output_clip = cell_clip, output_clip
        self.bias = with_forget_bias(weights.bias.detach())  # (4H,)
        self.input = make_product(weights.input, precision, many_rows=True)
        self.recurrent = make_product(weights.recurrent, precision)
        projection = weights.projection
        self.projection = None if projection is None else make_product(projection, precision)

    def read(
        self, x: Tensor, alive: Sequence[int], h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read tokens (S, P) from h (B, P) and c (B, H), sentences longest first.

        Returns:
            Outputs (S, P), and h and c after each sentence's last token.
        """
        y = x.new_empty(len(x), h.shape[1])  # (S, P)
        h, c = h.clone(), c.clone()
        blocks = blocks_of(alive, BLOCK_ROWS)
        room = x.new_empty(max(map(sum, blocks), default=0), len(self.bias))  # for each block again
        now, first = h, 0
        for steps in blocks:
            last = first + sum(steps)
            sums = room[: last - first].copy_(self.bias)  # (tokens, 4H)
            self.input.add_to(sums, x[first:last])
            for n, gates, out in zip(
                steps, torch.split(sums, steps), torch.split(y[first:last], steps), strict=True
            ):
                self.recurrent.add_to(gates, now[:n])
                out.copy_(self._cell(gates, c[:n]))  # (n, P)
                h[n : len(now)] = now[n:]  # sentences that ended a step ago
                now = out
            first = last
        h[: len(now)] = now
        return y, h, c

    def _cell(self, gates: Tensor, c: Tensor) -> Tensor:
        """One step in place: sums of the gates (n, 4H) and the cell (n, H) -> output (n, P)."""
        i, f, g, o = gates.chunk(4, 1)  # each (n, H)
        gates[:, : 2 * c.shape[1]].sigmoid_()  # i and f
        c.mul_(f).addcmul_(i, g.tanh_())
        if self.cell_clip is not None:
            c.clamp_(-self.cell_clip, self.cell_clip)
        squashed = torch.tanh(c).mul_(o.sigmoid_())  # (n, H)
        if self.projection is None:
            return squashed
        out = self.projection(squashed)  # (n, P)
        return out if self.output_clip is None else out.clamp_(-self.output_clip, self.output_clip)
