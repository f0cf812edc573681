"""A projected LSTM layer on a CPU: the reference's numbers, several times faster.

Sentences stand longest first, so step t concerns the first alive[t] rows
and finished sentences cost nothing; the tokens of a batch are one matrix without padding, step
after step. Inputs of many steps are multiplied at once, gates are computed in place.

Shapes: S tokens, B sentences, n of them alive at a step, P output width, H cell width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from relmo.kernels.cpu_products import Product
from relmo.kernels.packing import blocks_of
from relmo.kernels.reference import Clips

BLOCK_ROWS = 256
"""Tokens whose inputs are multiplied at once: their gates stay in the cache until they are used."""


class PackedLstm:
    """One layer of one direction.

    Args:
        input_product: of the input weight (4H, P), for many rows at once.
        recurrent: product of the recurrent weight (4H, P).
        bias: (4H,), the forget gate's 1.0 in it.
        projection: product of the projection (P, H), or None.
        clips: bounds on cell and output.
    """

    def __init__(
        self,
        *,
        input_product: Product,
        recurrent: Product,
        bias: Tensor,
        projection: Product | None,
        clips: Clips,
    ) -> None:
        self.input, self.recurrent, self.projection = input_product, recurrent, projection
        self.bias = bias  # (4H,)
        self.clips = clips

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
        room = x.new_empty(max(map(sum, blocks), default=0), len(self.bias))  # reused by each block
        now, cell, first = h, c, 0  # of the sentences still alive
        for steps in blocks:
            last = first + sum(steps)
            sums = room[: last - first].copy_(self.bias)  # (tokens, 4H)
            self.input.add_to(sums, x[first:last])
            for n, gates, out in zip(
                steps, torch.split(sums, steps), torch.split(y[first:last], steps), strict=True
            ):
                if n < now.shape[0]:  # some ended a step ago
                    h[n : now.shape[0]] = now[n:]
                    now, cell = now[:n], cell[:n]
                self.recurrent.add_to(gates, now)
                now = out.copy_(self._cell(gates, cell))  # (n, P)
            first = last
        h[: now.shape[0]] = now
        return y, h, c

    def _cell(self, gates: Tensor, c: Tensor) -> Tensor:
        """One step in place: sums of the gates (n, 4H) and the cell (n, H) -> output (n, P)."""
        i, f, g, o = gates.chunk(4, 1)  # each (n, H)
        gates[:, : 2 * c.shape[1]].sigmoid_()  # i and f
        c.mul_(f).addcmul_(i, g.tanh_())
        if self.clips.cell is not None:
            c.clamp_(-self.clips.cell, self.clips.cell)
        squashed = torch.tanh(c).mul_(o.sigmoid_())  # (n, H)
        if self.projection is None:
            return squashed
        out = self.projection(squashed)  # (n, P)
        bound = self.clips.output
        return out if bound is None else out.clamp_(-bound, bound)
