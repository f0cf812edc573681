"""One input line and its vectors: what goes into the journal and from there into every format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from relmo.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One input line, its tokens and their vectors."""

    line: int
    """Where the line stands in the input, counted from 0."""
    text: str
    """The line as it came. It may hold lone surrogates."""
    tokens: Sequence[str]
    """T tokens; T may be 0."""
    vectors: NDArray[np.floating[Any]]
    """(layers, T, D), or (T, D) when one layer was asked for; float32 or float16."""

    def __post_init__(self) -> None:
        shape, dtype = self.vectors.shape, self.vectors.dtype
        if dtype not in (np.float32, np.float16):
            raise OutputError(f"line {self.line}: vectors are {dtype}; give float32 or float16")
        if len(shape) not in (2, 3) or shape[-2] != len(self.tokens):
            raise OutputError(
                f"line {self.line}: vectors of shape {shape} for {len(self.tokens)} tokens; "
                "give (layers, T, D) or (T, D)"
            )

    @property
    def layers(self) -> NDArray[np.floating[Any]]:
        """The vectors with their layers spelled out: (layers, T, D), one layer as (1, T, D)."""
        return self.vectors if self.vectors.ndim == 3 else self.vectors[np.newaxis]
