"""Temporary."""

from __future__ import annotations

import torch
from torch import Tensor

from relmo.config import LstmConfig
from relmo.nn.bilm import map_state, zero_state
from relmo.types import BiLmState


def take_rows(state: BiLmState, batch_size: int) -> BiLmState:
    """Rows 0 … batch_size - 1, zero rows appended where there are fewer: the originals' rule."""

    def take(part: Tensor) -> Tensor:
        kept = part[:, :batch_size]
        missing = batch_size - kept.shape[1]
        more = kept.new_zeros(kept.shape[0], missing, kept.shape[2])
        return torch.cat([kept, more], 1)  # (L, batch_size, width)

    return map_state(take, state)


def put_rows(state: BiLmState, rows: BiLmState) -> BiLmState:
    """The state with its first rows replaced; rows beyond stay as they were."""

    def put(old: Tensor, new: Tensor) -> Tensor:
        return torch.cat([new, old[:, new.shape[1] :]], 1)  # (L, rows of old or new, width)

    return map_state(put, state, rows)


class CarriedState:
    """The originals' rule: row b of a batch reads on where row b of the batch before it stopped.

    Zero at first; a smaller batch uses and updates its own rows, a larger one appends zero rows.
    """

    def __init__(self) -> None:
        self._state: BiLmState | None = None

    def reset(self) -> None:
        """Start from zero again."""
        self._state = None

    def before(self, config: LstmConfig, batch_size: int, like: Tensor) -> BiLmState:
        """The state that a batch of this size begins with."""
        if self._state is None:
            return zero_state(config, batch_size, like)
        return take_rows(map_state(lambda part: part.to(like), self._state), batch_size)

    def after(self, state: BiLmState) -> None:
        """Keep the state that a batch ended with; no gradient flows from call to call."""
        state = map_state(Tensor.detach, state)
        self._state = state if self._state is None else put_rows(self._state, state)
