"""Layers of a sentence -> vectors that tell the senses of a word apart.

The top layer at a word was trained to foretell its neighbours. What was trained to foretell the
word itself stands beside it: the forward model one token before, the backward model one token
after. Both speak to one softmax, so their sum is what both sides together expect at this place, be
it a bank of money or of a river; the word itself has no part in it. The LSTM layers at the word add
what the word is.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize


def sense_vectors(layers: Tensor) -> Tensor:
    """(L + 1, B, T, D) -> (B, T, P + L D), 0 at the boundaries.

    Each part has length one, the L layers one together: a cosine weighs what is expected and what
    is there alike.
    """
    *_, top = layers  # (B, T, D)
    P, L = top.shape[-1] // 2, len(layers) - 1
    expected = top[:, :-2, :P] + top[:, 2:, P:]  # (B, T - 2, P)
    there = [normalize(layer[:, 1:-1], dim=-1) / L**0.5 for layer in layers[1:]]  # (B, T - 2, D)
    found = torch.cat([normalize(expected, dim=-1), *there], -1)
    return torch.nn.functional.pad(found, (0, 0, 1, 1))
