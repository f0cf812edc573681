"""The nouns of relmo, frozen. Letters of shapes are those of docs/shapes.md.

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
    """A word of a text and where it stands: `text[start:end]` is the token."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Sentences as the biLM reads them, boundaries included, each distinct word spelled once.

    Token t of sentence b is the word `words[index[b, t]]`; past `lengths[b]` the index is 0 and
    what stands there is never looked at.
    """

    words: Tensor
    """(U, C) character ids, or (U,) word ids for a model with a word table."""
    index: Tensor
    """(B, T) rows of `words`."""
    lengths: Tensor
    """(B,) tokens of each sentence, both boundaries counted. Always on the CPU."""


@dataclass(frozen=True, slots=True)
class Layers:
    """All layers of a padded batch of sentences, boundaries included."""

    values: Tensor
    """(L + 1, B, T, D). Layer 0 is the token vector twice; `[..., :P]` is forward, `[..., P:]`
    backward. Zero wherever the mask is false."""
    mask: Tensor
    """(B, T) true where a token stands."""

    @property
    def word_mask(self) -> Tensor:
        """(B, T - 2) true where a word stands, for tensors without their first and last token."""
        return self.mask[:, 2:]


@dataclass(frozen=True, slots=True)
class LstmState:
    """What one direction remembers: the output and the cell of each of its layers."""

    h: Tensor
    """(L, B, P), before any skip connection."""
    c: Tensor
    """(L, B, H)."""


@dataclass(frozen=True, slots=True)
class BiLmState:
    """What both directions remember between one batch and the next."""

    forward: LstmState
    backward: LstmState
