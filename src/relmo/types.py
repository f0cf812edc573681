"""The data types of relmo, frozen. The letters of shapes are those of docs/shapes.md.

B sentences, T tokens, C characters per token, P width of one direction, D = 2P width of a token,
H cell width, L LSTM layers per direction, U distinct words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

Vectors: TypeAlias = "NDArray[np.float32]"
VectorDtype = Literal["float32", "float16"]


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a text and its offsets: `text[start:end]` is the token."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Sentences as the biLM reads them, with boundaries; each distinct word is spelled once.

    Token t of sentence b is the word `words[index[b, t]]`. From `lengths[b]` on, the index is
    padding: 0, and never read.
    """

    words: Tensor
    """(U, C) character ids, or (U,) word ids for a model with a word table."""
    index: Tensor
    """(B, T) indices into `words`."""
    lengths: Tensor
    """(B,) number of tokens of each sentence, both boundaries included. Always on the CPU."""


@dataclass(frozen=True, slots=True)
class Layers:
    """All layers of a padded batch of sentences, with boundaries."""

    values: Tensor
    """(L + 1, B, T, D). Layer 0 is the token vector twice; `[..., :P]` is forward, `[..., P:]`
    backward. Zero wherever the mask is false."""
    mask: Tensor
    """(B, T) true for tokens, false for padding."""

    @property
    def word_mask(self) -> Tensor:
        """(B, T - 2) true for words, for tensors without their first and last token."""
        return self.mask[:, 2:]


@dataclass(frozen=True, slots=True)
class LstmState:
    """The recurrent state of one direction: output and cell of each of its layers."""

    h: Tensor
    """(L, B, P), before any skip connection."""
    c: Tensor
    """(L, B, H)."""


@dataclass(frozen=True, slots=True)
class BiLmState:
    """The recurrent state of both directions between two batches."""

    forward: LstmState
    backward: LstmState
