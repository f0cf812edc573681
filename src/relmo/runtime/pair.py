"""The two language models of a biLM side by side, each reading text of its own.

For training and scoring: the backward model reads its own stream from right to left, so the two
windows of a step hold different words. State goes in and comes out; no gradient flows through it.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from relmo.kernels.device import has_triton, paired_lstm
from relmo.kernels.reference import LstmWeights, with_forget_bias
from relmo.nn.bilm import BiLM
from relmo.nn.lstm import LstmLayer, LstmStack
from relmo.types import BiLmState, LstmState


def read_pair(
    forward_lstm: LstmStack,
    backward_lstm: LstmStack,
    x: Tensor,
    state: BiLmState,
    dropout: float = 0.0,
) -> tuple[list[Tensor], BiLmState]:
    """Each layer's outputs (2, T, B, P), forward then backward, from token vectors (2, T, B, P).

    Dropout, in training, falls on what each layer reads; a skip connection goes around it.
    """
    config = forward_lstm.config
    layers, hs, cs = [], [], []
    for depth in range(config.num_layers):
        h = torch.stack([state.forward.h[depth], state.backward.h[depth]])  # (2, B, P)
        c = torch.stack([state.forward.c[depth], state.backward.c[depth]])  # (2, B, H)
        read = F.dropout(x, dropout) if dropout else x
        weights = stacked_weights(forward_lstm, backward_lstm, depth, x.dtype)
        clips = config.cell_clip, config.output_clip
        y, h, c = paired_lstm(read, h.to(x.dtype), c, weights, *clips)
        x = y + x if depth > 0 and config.has_skips else y
        layers.append(x)
        hs.append(h.to(c.dtype))
        cs.append(c)
    h, c = torch.stack(hs), torch.stack(cs)  # (L, 2, B, P), (L, 2, B, H)
    return layers, BiLmState(LstmState(h[:, 0], c[:, 0]), LstmState(h[:, 1], c[:, 1]))


def has_kernels(bilm: BiLM) -> bool:
    """Whether a biLM's LSTMs run as kernels where it is, reading or in training."""
    weight = next(bilm.parameters())
    is_float32 = weight.dtype == torch.float32
    return bilm.config.lstm.has_projection and is_float32 and has_triton(weight)


def stacked_weights(
    forward_lstm: LstmStack, backward_lstm: LstmStack, depth: int, dtype: torch.dtype
) -> LstmWeights:
    """One layer's weights of both directions, stacked, in the dtype of the arithmetic."""
    pair = [cast("LstmLayer", stack.layers[depth]) for stack in (forward_lstm, backward_lstm)]

    def stacked(parts: list[Tensor]) -> Tensor:
        return torch.stack([part.to(dtype) for part in parts])

    projections = [layer.projection for layer in pair if layer.projection is not None]
    return LstmWeights(
        input=stacked([layer.input_weight for layer in pair]),  # (2, 4H, P)
        recurrent=stacked([layer.recurrent_weight for layer in pair]),  # (2, 4H, P)
        bias=stacked([with_forget_bias(layer.bias) for layer in pair]),  # (2, 4H)
        projection=stacked(list(projections)) if projections else None,  # (2, P, H)
    )
