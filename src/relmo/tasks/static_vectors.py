"""Static word vectors, of the words that occur alone: GloVe's and word2vec's text files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from relmo.errors import DataError
from relmo.text.documents import open_text
from relmo.text.lines import read_lines

PADDING, UNKNOWN = "<pad>", "<unk>"


class StaticVectors:
    """Words and their vectors; rows 0 and 1 are padding and the unknown word.

    Args:
        words: of rows 2 onwards.
        table: (2 + words, width) float32.
    """

    def __init__(self, words: Iterable[str], table: NDArray[np.float32]) -> None:
        self.words = list(words)
        self.table = table
        self._row_of = {word: row for row, word in enumerate(self.words, 2)}
        assert len(table) == len(self.words) + 2

    def rows(self, words: Iterable[str]) -> NDArray[np.int64]:
        """Row of each word: as it is written, else in lower case, else unknown."""
        row_of = self._row_of
        found = [row_of.get(w) or row_of.get(w.lower(), 1) for w in words]
        return np.array(found, dtype=np.int64)


def read_vectors(path: Path, wanted: set[str]) -> StaticVectors:
    """Vectors of the wanted words, and of their lower-case forms; the file is read once."""
    forms = wanted | {word.lower() for word in wanted}
    words: list[str] = []
    rows: list[NDArray[np.float32]] = []
    with open_text(path) as file:
        for number, line in enumerate(read_lines(file, str(path)), 1):
            word, _, values = line.partition(" ")
            if number == 1 and len(values.split()) == 1:
                continue  # word2vec says how many there are
            if word in forms:
                words.append(word)
                rows.append(_parse(values, path, number, rows))
                forms.discard(word)
    width = len(rows[0]) if rows else 0
    if not width:
        raise DataError(path, 1, "holds no vector of any word of this data; is it the language's?")
    found = np.stack(rows)
    scale = float(found.std())
    unknown = np.random.default_rng(0).normal(0, scale, width).astype(np.float32)
    return StaticVectors(
        words, np.concatenate([np.zeros((1, width)), [unknown], found], dtype="f4")
    )


def random_vectors(words: Iterable[str], width: int, seed: int = 0) -> StaticVectors:
    """Vectors to be trained from nothing, for data without a file of them."""
    known = sorted(set(words))
    table = np.random.default_rng(seed).normal(0, 0.1, (len(known) + 2, width))
    table[0] = 0
    return StaticVectors(known, table.astype(np.float32))


def _parse(
    values: str, path: Path, number: int, before: list[NDArray[np.float32]]
) -> NDArray[np.float32]:
    try:
        found = np.array(values.split(), dtype=np.float32)
    except ValueError as error:
        raise DataError(path, number, f"{error}; a word and its numbers are needed") from error
    if not len(found) or (before and len(before[0]) != len(found)):
        wanted = f"{len(before[0])} as in the lines before" if before else "at least one"
        raise DataError(path, number, f"{len(found)} numbers; {wanted} are needed")
    return found
