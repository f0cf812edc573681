"""What engines computed without padding -> layers of a padded batch, directions joined."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from relmo.kernels.device import to_device
from relmo.types import Layers


def hand_out(
    x: Tensor, lengths: Tensor, places: Tensor, outputs: Sequence[Tensor | tuple[Tensor, Tensor]]
) -> Layers:
    """Layers of a batch.

    Args:
        x: (B, T, P) token vectors, which are layer 0 of both directions.
        lengths: (B,) tokens of each sentence.
        places: (2, S) rows of the padded batch, (B x T), in each direction's reading order.
        outputs: of each LSTM layer, forward and backward, (S, P) each.
    """
    B, T, P = x.shape
    tokens, (ahead, behind) = x.reshape(B * T, P), places
    values = x.new_zeros(len(outputs) + 1, B * T, 2 * P)  # (L + 1, B x T, D)
    values[0, ahead] = tokens[ahead].repeat(1, 2)
    for depth, (forward, backward) in enumerate(outputs, 1):
        values[depth, ahead, :P] = forward
        values[depth, behind, P:] = backward
    mask = to_device(torch.arange(T) < lengths.unsqueeze(1), x.device)  # (B, T)
    return Layers(values.view(len(values), B, T, 2 * P), mask)
