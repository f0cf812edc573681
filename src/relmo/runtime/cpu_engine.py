"""`BiLM.read` on a CPU with packed weights: the same layers, several times sooner, no gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from relmo.kernels.cpu_lstm import PackedLstm
from relmo.kernels.cpu_products import Precision
from relmo.kernels.memory import give_back_freed
from relmo.kernels.packing import Packing, pack
from relmo.kernels.side_by_side import run_both
from relmo.nn.bilm import BiLM
from relmo.nn.lstm import LstmLayer, LstmStack
from relmo.runtime.hand_out import hand_out
from relmo.types import BiLmState, Layers, LstmState

LARGE = 16 * 2**20
"""Bytes of a batch's layers from which on freed memory is given back between phases of the work."""


class CpuEngine:
    """Reads with a biLM whose weights stay as they are.

    Args:
        bilm: on the CPU, without gradients.
        precision: of the LSTMs' products.
    """

    def __init__(self, bilm: BiLM, precision: Precision) -> None:
        self.bilm = bilm
        self._forward = _packed(bilm.forward_lstm, precision)
        self._backward = _packed(bilm.backward_lstm, precision)
        give_back_freed()  # what packing needed beside

    @torch.no_grad()
    def read(
        self, x: Tensor, lengths: Tensor, state: BiLmState | None = None
    ) -> tuple[Layers, BiLmState]:
        """Read token vectors (B, T, P) whose row b is valid up to lengths[b]: see `BiLM.read`."""
        B, T, P = x.shape
        state = self.bilm.begin(state, B)
        plan = pack(lengths, T)
        tokens = x.reshape(B * T, P)
        is_large = 2 * (len(self._forward) + 1) * x.nbytes >= LARGE
        if is_large:
            give_back_freed()  # by the batch before
        ahead, behind = run_both(
            lambda: self._read(self._forward, tokens[plan.ahead], plan, state.forward),
            lambda: self._read(self._backward, tokens[plan.behind], plan, state.backward),
        )
        if is_large:
            give_back_freed()  # by the directions
        outputs = list(zip(ahead[0], behind[0], strict=True))
        places = torch.stack([plan.ahead, plan.behind])  # (2, S)
        return hand_out(x, lengths, places, outputs), BiLmState(ahead[1], behind[1])

    def _read(
        self, stack: list[PackedLstm], x: Tensor, plan: Packing, state: LstmState
    ) -> tuple[list[Tensor], LstmState]:
        """One direction: tokens (S, P) in its own order -> each layer's outputs (S, P), state."""
        back = torch.argsort(plan.order)  # from longest-first to the caller's order
        outputs, hs, cs = [], [], []
        for depth, layer in enumerate(stack):
            begin = state.h[depth][plan.order], state.c[depth][plan.order]  # (B, P), (B, H)
            y, h, c = layer.read(x, plan.alive, *begin)
            x = y.add_(x) if depth > 0 and self.bilm.config.lstm.has_skips else y
            outputs.append(x)
            hs.append(h[back])
            cs.append(c[back])
        return outputs, LstmState(torch.stack(hs), torch.stack(cs))  # (L, B, P), (L, B, H)


def _packed(stack: LstmStack, precision: Precision) -> list[PackedLstm]:
    found = []
    for layer in stack.layers:
        assert isinstance(layer, LstmLayer)
        clips = layer.config.cell_clip, layer.config.output_clip
        found.append(PackedLstm(layer.weights, *clips, precision))
    return found
