"""The character convolutions as one matrix product: all filters, all places, all words at once.

Every window of the widest filter is a row of letters; narrower filters are padded with zeros to
that width. Float32 stays float32 on every device, where convolutions may be rounded to TF32.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

Filters = Sequence[tuple[Tensor, Tensor]]


def char_convolutions(
    letters: Tensor, filters: Filters, activation: str, ends_in_padding: bool = False
) -> Tensor:
    """Strongest response of each filter anywhere in the word: (N, C, E) -> (N, F).

    The same as `reference.char_convolutions`. Where every word leaves the widest filter a window of
    padding alone, `ends_in_padding` saves the windows past it: what narrower filters see there
    equals what they see in that one.
    """
    N, C, E = letters.shape
    widest = max(weight.shape[2] for weight, _ in filters)
    if not ends_in_padding:
        letters = F.pad(letters, (0, 0, 0, widest - 1))  # (N, C + widest - 1, E)
    weight, bias = widen_filters(filters)  # (widest * E, F), (F,)
    windows = letters.flatten(1).unfold(1, widest * E, E)  # (N, places, widest * E), a view
    places = windows.shape[1]
    found = (windows.reshape(N * places, widest * E) @ weight).view(N, places, len(bias))
    if not ends_in_padding:
        found = found.masked_fill(_past_the_end(filters, C, letters.device), float("-inf"))
    best = found.max(1).values + bias  # (N, F)
    return torch.relu(best) if activation == "relu" else torch.tanh(best)


def widen_filters(filters: Filters) -> tuple[Tensor, Tensor]:
    """All filters as one matrix (widest * E, F), narrower ones padded, and their bias (F,)."""
    widest = max(weight.shape[2] for weight, _ in filters)
    padded = [F.pad(weight, (0, widest - weight.shape[2])) for weight, _ in filters]
    stacked = torch.cat(padded)  # (F, E, widest)
    return stacked.permute(2, 1, 0).flatten(0, 1), torch.cat([bias for _, bias in filters])


def _past_the_end(filters: Filters, C: int, device: torch.device) -> Tensor:
    """(C, F) where a window of the filter would reach beyond the word's C characters."""
    widths = [weight.shape[2] for weight, _ in filters for _ in range(weight.shape[0])]
    place = torch.arange(C, device=device).unsqueeze(1)  # (C, 1)
    return place + torch.tensor(widths, device=device) > C
