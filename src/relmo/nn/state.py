"""What a biLM remembers, made, widened and cut by hand: state is an argument, never a memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from relmo.config import LstmConfig
from relmo.errors import ConfigError
from relmo.types import BiLmState, LstmState


def zero_state(config: LstmConfig, batch_size: int, like: Tensor) -> BiLmState:
    """Nothing remembered, for batch_size rows, on the device and in the dtype of `like`."""

    def direction() -> LstmState:
        L, B, P, H = config.num_layers, batch_size, config.output_width, config.cell_width
        return LstmState(h=like.new_zeros(L, B, P), c=like.new_zeros(L, B, H))

    return BiLmState(forward=direction(), backward=direction())


def check_state(state: BiLmState, config: LstmConfig, batch_size: int) -> None:
    """Raise ConfigError unless the state is that of batch_size rows of such a model."""
    L, B, P, H = config.num_layers, batch_size, config.output_width, config.cell_width
    for name, part in (("forward", state.forward), ("backward", state.backward)):
        found = tuple(part.h.shape), tuple(part.c.shape)
        if found != ((L, B, P), (L, B, H)):
            raise ConfigError(
                f"{name} state has shapes {found[0]} and {found[1]}, {B} sentences need "
                f"{(L, B, P)} and {(L, B, H)}; hand in the state that the same rows came out with"
            )


def map_state(change: Callable[..., Tensor], *states: BiLmState) -> BiLmState:
    """Apply a function to all four tensors, each (L, B, width), of one state or of several."""
    return BiLmState(
        forward=LstmState(
            h=change(*(s.forward.h for s in states)), c=change(*(s.forward.c for s in states))
        ),
        backward=LstmState(
            h=change(*(s.backward.h for s in states)), c=change(*(s.backward.c for s in states))
        ),
    )


def repeat_state(state: BiLmState, batch_size: int) -> BiLmState:
    """The one row of a start state, (L, 1, width), for each of batch_size rows."""
    return map_state(lambda part: part.expand(-1, batch_size, -1), state)


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
