"""A fixed list of words and their ids: the input of a word-table model, the softmax of an LM.

The file is vocab.txt: one word per line, in row order, with `<S>`, `</S>` and `<UNK>` among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from relmo.errors import TextError
from relmo.files import read_limited
from relmo.text.characters import BEGIN_SENTENCE, END_SENTENCE

UNKNOWN = "<UNK>"
MAX_BYTES = 256 * 2**20
"""Maximum size of a vocab.txt that is read; a million words take about 8 MB."""


class Lexicon:
    """Words in row order; words outside the list get the row of `<UNK>`."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._row_of = {word: row for row, word in enumerate(self.words)}
        if len(self._row_of) != len(self.words):
            twice = next(w for row, w in enumerate(self.words) if self._row_of[w] != row)
            raise TextError(f"the vocabulary contains {twice!r} twice; remove one of them")
        for needed in (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN):
            if needed not in self._row_of:
                raise TextError(f"the vocabulary lacks {needed!r}; add it at its row")

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._row_of

    def rows(self, words: Iterable[str]) -> NDArray[np.int64]:
        """The row of each word, (U,)."""
        unknown = self._row_of[UNKNOWN]
        return np.array([self._row_of.get(word, unknown) for word in words], dtype=np.int64)

    @classmethod
    def read(cls, path: Path, max_words: int | None = None) -> Lexicon:
        """Read vocab.txt; only a newline ends a line, as words may contain other white space.

        `max_words` is how many rows there are for its words.
        """
        try:
            content = read_limited(path, MAX_BYTES)
        except OSError as error:
            raise TextError(f"{path}: cannot be read ({error.strerror}); copy it again") from error
        found = content.count(b"\n") + (not content.endswith(b"\n"))
        if max_words is not None and found > max_words:  # before words take memory
            raise TextError(
                f"{path}: has {found:,} words, the model at most {max_words:,} rows; are they from "
                f"the same model?"
            )
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise TextError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
        lines = text.removesuffix("\n").split("\n")
        return cls([line.removesuffix("\r") for line in lines])

    def write(self, path: Path) -> None:
        """Write vocab.txt."""
        path.write_text("".join(f"{word}\n" for word in self.words), encoding="utf-8", newline="\n")
