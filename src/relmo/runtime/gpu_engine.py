"""`BiLM.read` on a GPU with both directions stacked: the same layers, no gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from relmo.kernels.device import to_device
from relmo.kernels.packing import Rooms, make_rooms, pack
from relmo.nn.bilm import BiLM
from relmo.runtime.hand_out import hand_out
from relmo.runtime.pair import stacked_weights
from relmo.types import BiLmState, Layers, LstmState


class GpuEngine:
    """Reads with a biLM whose weights stay as they are.

    Args:
        bilm: on the GPU, without gradients, its LSTMs with a projection.
        dtype: of the products: float32 or bfloat16.
    """

    def __init__(self, bilm: BiLM, dtype: torch.dtype) -> None:
        from relmo.kernels.triton_lstm import read_weights

        self.bilm, self.dtype = bilm, dtype
        depths = range(bilm.config.lstm.num_layers)
        stacks = bilm.forward_lstm, bilm.backward_lstm
        self._layers = [read_weights(stacked_weights(*stacks, depth, dtype)) for depth in depths]

    @torch.no_grad()
    def read(
        self, x: Tensor, lengths: Tensor, state: BiLmState | None = None
    ) -> tuple[Layers, BiLmState]:
        """Read token vectors (B, T, P) whose row b is valid up to lengths[b]: see `BiLM.read`."""
        from relmo.kernels.triton_lstm import read_packed

        B, T, P = x.shape
        config = self.bilm.config.lstm
        state = self.bilm.begin(state, B)
        plan = pack(lengths, T)
        order, back = (
            to_device(o, x.device) for o in (plan.order, torch.argsort(plan.order))
        )  # (B,)
        steps, inputs, last = make_rooms(plan.alive)
        rooms = Rooms(steps, to_device(inputs, x.device), to_device(last, x.device))
        places = to_device(torch.stack([plan.ahead, plan.behind]), x.device)  # (2, S)
        read = x.reshape(B * T, P)[places].to(self.dtype)  # (2, S, P)
        outputs, hs, cs = [], [], []
        for depth, weights in enumerate(self._layers):
            h = torch.stack([state.forward.h[depth], state.backward.h[depth]])[:, order]
            c = torch.stack([state.forward.c[depth], state.backward.c[depth]])[:, order]
            clips = config.cell_clip, config.output_clip
            y, h, c = read_packed(read, rooms, h.to(self.dtype), c, weights, *clips)
            read = y + read if depth > 0 and config.has_skips else y  # (2, S, P)
            outputs.append(read.float())
            hs.append(h[:, back].float())
            cs.append(c[:, back])
        h, c = torch.stack(hs), torch.stack(cs)  # (L, 2, B, P), (L, 2, B, H)
        after = BiLmState(LstmState(h[:, 0], c[:, 0]), LstmState(h[:, 1], c[:, 1]))
        return hand_out(x, lengths, places, outputs), after
