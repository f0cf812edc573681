"""A biLM on a GPU, both directions stacked: the reference's numbers, no gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from relmo.kernels.device import to_device
from relmo.kernels.packing import Packing, StepRows, plan_step_rows
from relmo.kernels.reference import Clips
from relmo.nn.bilm import (
    BiLM,
    Outputs,
    run_stack,
    split_directions,
    stack_directions,
    stack_weights,
)
from relmo.types import BiLmState


class GpuEngine:
    """Runs the LSTMs of a biLM whose weights do not change.

    Args:
        bilm: on the GPU, its LSTMs with a projection.
        dtype: of the products: float32 or bfloat16.
    """

    def __init__(self, bilm: BiLM, dtype: torch.dtype) -> None:
        from relmo.kernels.triton_lstm import join_weights  # imports Triton

        self.config, self.dtype = bilm.config.lstm, dtype
        forward, backward = bilm.forward_lstm, bilm.backward_lstm
        self._layers = [
            join_weights(stack_weights(forward.layer(depth), backward.layer(depth), dtype))
            for depth in range(self.config.num_layers)
        ]

    @torch.no_grad()
    def read_packed(
        self, rows: Tensor, packing: Packing, state: BiLmState
    ) -> tuple[Outputs, BiLmState]:
        """Read token vectors (2, S, P), packed in each direction's reading order."""
        from relmo.kernels.triton_lstm import read_packed

        device, config = rows.device, self.config
        orders = packing.order, torch.argsort(packing.order)  # longest first, and back again
        order, back = (to_device(each, device) for each in orders)  # each (B,)
        steps, inputs, last = plan_step_rows(packing.alive)
        plan = StepRows(steps, to_device(inputs, device), to_device(last, device))
        clips = Clips(config.cell_clip, config.output_clip)

        def layer(depth: int, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            h, c = h[:, order].to(self.dtype), c[:, order]  # (2, B, P), (2, B, H)
            y, h, c = read_packed(x, plan, h, c, self._layers[depth], clips)
            return y, h[:, back].float(), c[:, back]

        before = stack_directions(state)
        outputs, after = run_stack(layer, rows.to(self.dtype), before, config)
        return [y.float() for y in outputs], split_directions(after)
