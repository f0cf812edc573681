"""One direction of the biLM, a stack of projected LSTM layers, and the one rule that stacks them.

`run_stack` is the recurrence of ELMo over layers: which layer reads what, where the skip connection
goes, what becomes of the state. Whoever runs the LSTMs (the plain modules here, the training
kernels, the CPU and GPU engines of `relmo.runtime`) supplies the arithmetic of one layer alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from relmo.config import LstmConfig
from relmo.kernels import reference
from relmo.kernels.device import paired_lstm
from relmo.types import BiLmState, LstmState

LayerArithmetic = Callable[[int, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
"""(depth, inputs, h, c) -> outputs, and h and c after the last token, of one layer."""


def run_stack(
    layer: LayerArithmetic, x: Tensor, state: LstmState, config: LstmConfig
) -> tuple[list[Tensor], LstmState]:
    """Outputs of every layer, and the state after the last token.

    The state holds what a layer computed before the skip: that is what it feeds back to itself.

    Args:
        layer: the arithmetic of one layer.
        x: (..., P) token vectors, in any arrangement that `layer` understands.
        state: (L, ..., P) and (L, ..., H) before the first token.
        config: of the stack.
    """
    outputs, hs, cs = [], [], []
    for depth in range(config.num_layers):
        y, h, c = layer(depth, x, state.h[depth], state.c[depth])
        x = y + x if depth > 0 and config.has_skips else y
        outputs.append(x)
        hs.append(h)
        cs.append(c)
    return outputs, LstmState(h=torch.stack(hs), c=torch.stack(cs))


class LstmLayer(nn.Module):
    """One projected, clipped LSTM layer; gates in the order input, forget, candidate, output."""

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        H, P = config.cell_width, config.output_width
        self.config = config
        self.input_weight = nn.Parameter(torch.empty(4 * H, P))
        self.recurrent_weight = nn.Parameter(torch.empty(4 * H, P))
        self.bias = nn.Parameter(torch.empty(4 * H))
        """Without the forget gate's 1.0, which is added at run time."""
        self.projection = nn.Parameter(torch.empty(P, H)) if config.has_projection else None

    @property
    def weights(self) -> reference.LstmWeights:
        """The parameters as kernels take them."""
        return reference.LstmWeights(
            self.input_weight, self.recurrent_weight, self.bias, self.projection
        )

    def forward(
        self, inputs: Tensor, lengths: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read (B, T, P) from state (B, P), (B, H); return outputs (B, T, P), state after."""
        return reference.projected_lstm(
            inputs, lengths, h, c, self.weights, self.config.cell_clip, self.config.output_clip
        )


class LstmStack(nn.Module):
    """L layers, each reading the one below; from the second on with a skip connection if asked."""

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(LstmLayer(config) for _ in range(config.num_layers))

    def layer(self, depth: int) -> LstmLayer:
        """The layer at a depth, from 0."""
        return cast("LstmLayer", self.layers[depth])

    def forward(
        self, inputs: Tensor, lengths: Tensor, state: LstmState
    ) -> tuple[list[Tensor], LstmState]:
        """Each layer's outputs (B, T, P) of (B, T, P), and the state after each last token."""

        def layer(depth: int, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            y, h, c = self.layers[depth](x, lengths, h, c)
            return y, h, c

        return run_stack(layer, inputs, state, self.config)


def read_windows(
    forward_lstm: LstmStack,
    backward_lstm: LstmStack,
    x: Tensor,
    state: BiLmState,
    dropout: float = 0.0,
) -> tuple[list[Tensor], BiLmState]:
    """Each layer's outputs (2, T, B, P), forward then backward, of token vectors (2, T, B, P).

    For training: both directions at once, each reading its own text to the end of the window. No
    gradient flows through the state. Dropout applies to what each layer reads; the skip connection
    goes around it.
    """
    config = forward_lstm.config

    def layer(depth: int, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weights = stack_weights(forward_lstm.layer(depth), backward_lstm.layer(depth), x.dtype)
        inputs = F.dropout(x, dropout) if dropout else x
        clips = config.cell_clip, config.output_clip
        y, h, c = paired_lstm(inputs, h.to(x.dtype), c, weights, *clips)
        return y, h.to(c.dtype), c

    outputs, after = run_stack(layer, x, stack_directions(state), config)
    return outputs, split_directions(after)


def stack_weights(
    forward_layer: LstmLayer, backward_layer: LstmLayer, dtype: torch.dtype
) -> reference.LstmWeights:
    """One layer's weights of both directions, stacked, the forget gate's 1.0 added to the bias."""
    pair = forward_layer, backward_layer

    def stacked(*parts: Tensor) -> Tensor:
        return torch.stack([part.to(dtype) for part in parts])

    projections = [layer.projection for layer in pair if layer.projection is not None]
    return reference.LstmWeights(
        input=stacked(*(layer.input_weight for layer in pair)),  # (2, 4H, P)
        recurrent=stacked(*(layer.recurrent_weight for layer in pair)),  # (2, 4H, P)
        bias=stacked(*(reference.with_forget_bias(layer.bias) for layer in pair)),  # (2, 4H)
        projection=stacked(*projections) if projections else None,  # (2, P, H)
    )


def stack_directions(state: BiLmState) -> LstmState:
    """Both directions in one: (L, 2, B, P) and (L, 2, B, H)."""
    forward, backward = state.forward, state.backward
    h, c = torch.stack([forward.h, backward.h], 1), torch.stack([forward.c, backward.c], 1)
    return LstmState(h, c)


def split_directions(state: LstmState) -> BiLmState:
    """The inverse of `stack_directions`."""
    h, c = state.h, state.c
    return BiLmState(LstmState(h[:, 0], c[:, 0]), LstmState(h[:, 1], c[:, 1]))


def initialize(stack: LstmStack, generator: torch.Generator) -> None:
    """Fill new parameters at random."""
    for depth in range(stack.config.num_layers):
        layer = stack.layer(depth)
        H, P = layer.config.cell_width, layer.config.output_width
        nn.init.normal_(layer.input_weight, 0.0, P**-0.5, generator=generator)
        nn.init.normal_(layer.recurrent_weight, 0.0, P**-0.5, generator=generator)
        nn.init.zeros_(layer.bias)
        if layer.projection is not None:
            nn.init.normal_(layer.projection, 0.0, H**-0.5, generator=generator)
