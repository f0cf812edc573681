"""One direction of the biLM: a stack of projected LSTM layers that reads left to right."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from relmo.config import LstmConfig
from relmo.kernels import reference
from relmo.types import LstmState


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
        """Read (B, T, P) from state (B, P), (B, H); give outputs (B, T, P) and the state after."""
        return reference.projected_lstm(
            inputs, lengths, h, c, self.weights, self.config.cell_clip, self.config.output_clip
        )


class LstmStack(nn.Module):
    """L layers, each reading the one below; from the second on with a skip connection if asked."""

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(LstmLayer(config) for _ in range(config.num_layers))

    def forward(
        self, inputs: Tensor, lengths: Tensor, state: LstmState
    ) -> tuple[list[Tensor], LstmState]:
        """Read (B, T, P); give each layer's outputs (B, T, P) and the state after the last token.

        The state holds what a layer computed before the skip: that is what it feeds back to itself.
        """
        outputs, hs, cs = [], [], []
        x = inputs  # (B, T, P)
        for depth, layer in enumerate(self.layers):
            y, h, c = layer(x, lengths, state.h[depth], state.c[depth])
            x = y + x if depth > 0 and self.config.has_skips else y
            outputs.append(x)
            hs.append(h)
            cs.append(c)
        return outputs, LstmState(h=torch.stack(hs), c=torch.stack(cs))  # (L, B, P), (L, B, H)


def initialize(stack: LstmStack, generator: torch.Generator) -> None:
    """Fill fresh parameters at random."""
    for layer in stack.layers:
        assert isinstance(layer, LstmLayer)
        H, P = layer.config.cell_width, layer.config.output_width
        nn.init.normal_(layer.input_weight, 0.0, P**-0.5, generator=generator)
        nn.init.normal_(layer.recurrent_weight, 0.0, P**-0.5, generator=generator)
        nn.init.zeros_(layer.bias)
        if layer.projection is not None:
            nn.init.normal_(layer.projection, 0.0, H**-0.5, generator=generator)
