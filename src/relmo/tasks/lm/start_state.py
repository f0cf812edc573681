"""The state with which a sentence is best begun: the mean of the states after earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.nn.bilm import BiLM, LstmStack, zero_state
from relmo.types import LstmState

Text = NDArray[np.int64]
LONGEST = 150
"""Tokens read before the state is taken."""
DOCUMENTS = 400
"""Documents over which it is averaged, at most."""


@torch.no_grad()
def mean_state(
    bilm: BiLM, token_vectors: Callable[[Text], Tensor], documents: Sequence[Text]
) -> dict[str, Tensor] | None:
    """Start state by its names in the module: forward after `</S>`, backward after `<S>`.

    None where no document ends a sentence soon enough.
    """
    texts = [text for text in documents if len(text) > 2][:DOCUMENTS]
    ahead = _not_empty(_up_to_last(text[:LONGEST], 1) for text in texts)
    behind = _not_empty(_up_to_last(text[::-1][:LONGEST], 0) for text in texts)
    if not ahead or not behind:
        return None
    state = zero_state(bilm.config.lstm, 1, like=next(bilm.parameters()))
    found = {}
    for direction, stack, rows, zero in (
        ("forward", bilm.forward_lstm, ahead, state.forward),
        ("backward", bilm.backward_lstm, behind, state.backward),
    ):
        after = _read(stack, token_vectors, rows, zero)
        found[f"start_{direction}_h"] = after.h.mean(1).cpu()  # (L, P)
        found[f"start_{direction}_c"] = after.c.mean(1).cpu()  # (L, H)
    return found


def _not_empty(texts: Iterable[Text]) -> list[Text]:
    return [text for text in texts if len(text)]


def _up_to_last(text: Text, boundary: int) -> Text:
    """The text up to its last such boundary; empty if it has none."""
    places = np.flatnonzero(text == boundary)
    return text[: places[-1] + 1] if len(places) else text[:0]


def _read(
    stack: LstmStack, token_vectors: Callable[[Text], Tensor], rows: list[Text], zero: LstmState
) -> LstmState:
    lengths = torch.tensor([len(row) for row in rows])
    padded = np.zeros((len(rows), int(lengths.max())), dtype=np.int64)  # (B, T)
    for place, row in zip(padded, rows, strict=True):
        place[: len(row)] = row
    words, index = np.unique(padded, return_inverse=True)
    vectors = token_vectors(words).float()  # (U, P)
    x = vectors[torch.from_numpy(index.reshape(padded.shape)).to(vectors.device)]  # (B, T, P)
    begin = LstmState(zero.h.expand(-1, len(rows), -1), zero.c.expand(-1, len(rows), -1))
    state: LstmState = stack(x, lengths, begin)[1]
    return state
