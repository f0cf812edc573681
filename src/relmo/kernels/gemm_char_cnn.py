"""The character convolutions as one matrix product, for words that leave room after their end.

Every window of the widest filter is a row of letters; narrower filters are padded with zeros to
that width. So all filters at all places of all words are one product, and the maximum over places
follows. Exact as long as the widest filter fits behind each word: then every window that a
narrower filter sees past the last window here lies in padding and equals one that is seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

Filters = Sequence[tuple[Tensor, Tensor]]


def widen_filters(filters: Filters) -> tuple[Tensor, Tensor]:
    """All filters as one matrix (widest * E, F), zeros where a filter is narrower, and bias (F,)."""
    widest = max(weight.shape[2] for weight, _ in filters)
    padded = [F.pad(weight, (0, widest - weight.shape[2])) for weight, _ in filters]
    stacked = torch.cat(padded)  # (F, E, widest)
    return stacked.permute(2, 1, 0).flatten(0, 1), torch.cat([bias for _, bias in filters])


def char_convolutions(letters: Tensor, filters: Filters, activation: str) -> Tensor:
    """Strongest response of each filter anywhere in the word: (N, C, E) -> (N, F).

    Same as `reference.char_convolutions` where each word ends at least one widest filter before C.
    """
    N, C, E = letters.shape
    weight, bias = widen_filters(filters)  # (widest * E, F), (F,)
    widest = weight.shape[0] // E
    places = C - widest + 1
    flat = letters.reshape(N, C * E)
    windows = flat.unfold(1, widest * E, E)  # (N, places, widest * E), a view
    found = windows.reshape(N * places, widest * E) @ weight  # (N * places, F)
    best = found.view(N, places, -1).max(1).values + bias  # (N, F)
    return torch.relu(best) if activation == "relu" else torch.tanh(best)
