"""Static word vectors from text files of GloVe or word2vec, of the words of a dataset alone.

    the 0.418 0.24968 …        a word, a space, its numbers; each line has as many as the first

word2vec's files begin with a line of two integers, the number of words and their width. Lines of
words that contain spaces are skipped: such words are never looked up.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from relmo.errors import ConfigError, DataError
from relmo.tasks.data_files import numbered_lines

Vector = NDArray[np.float32]

MAX_VALUE = 1e6
"""No word vector has such numbers; their squares would still be finite."""


class StaticVectors:
    """Words and their vectors, (2 + words, width); rows 0 and 1: padding and the unknown word."""

    def __init__(self, words: Iterable[str], table: Vector) -> None:
        self.words = list(words)
        self.table = table
        self._row_of = {word: row for row, word in enumerate(self.words, 2)}
        assert len(table) == len(self.words) + 2

    @property
    def size(self) -> dict[str, int]:
        """Number and width of the vectors, as records have them."""
        return {"words": len(self.words), "width": self.table.shape[1]}

    def rows(self, words: Iterable[str]) -> NDArray[np.int64]:
        """Row of each word: as it is written, else in lower case, else unknown."""
        row_of = self._row_of
        return np.array([row_of.get(w) or row_of.get(w.lower(), 1) for w in words], np.int64)


def read_vectors(path: Path, wanted: set[str], first: int = 0) -> StaticVectors:
    """Vectors of the wanted words and of their lower-case forms; the file is read once.

    If a word occurs twice, its first vector counts.

    Args:
        path: the file.
        wanted: words.
        first: words at the beginning of the file, mostly the frequent ones, to read besides.
    """
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; expected a text file of word vectors")
    forms = wanted | {word.lower() for word in wanted}
    found: dict[str, Vector] = {}
    is_header = False
    for number, line in numbered_lines(path, errors="replace"):  # GloVe has words with odd bytes
        word, _, values = line.partition(" ")
        if number == 1:
            is_header = word.isdecimal() and values.strip().isdecimal()  # word2vec's
            width = int(values) if is_header else len(values.split())
            if not width:
                raise DataError(path, 1, "no numbers; expected a word, a space and its numbers")
            if is_header:
                continue
        is_first = number <= first + is_header
        if (is_first or word in forms) and word not in found:
            vector = _parse(values, width, path, number)
            if vector is not None:
                found[word] = vector
    if not found:
        raise DataError(path, 1, "has no vector of any word in the data; is the language the same?")
    rows = np.stack(list(found.values()))
    unknown = np.random.default_rng(0).normal(0, float(rows.std()), width)
    return StaticVectors(found, np.concatenate([np.zeros((1, width)), [unknown], rows], dtype="f4"))


def random_vectors(words: Iterable[str], width: int, seed: int = 0) -> StaticVectors:
    """Random vectors, to be trained when no file of vectors is given."""
    known = sorted(set(words))
    table = np.random.default_rng(seed).normal(0, 0.1, (len(known) + 2, width))
    table[0] = 0
    return StaticVectors(known, table.astype(np.float32))


def _parse(values: str, width: int, path: Path, number: int) -> Vector | None:
    """The numbers of a line; None if the line belongs to a word that contains spaces."""
    parts = values.split()
    try:
        vector = np.array(parts, dtype=np.float64)
    except ValueError as error:
        if len(parts) > width:
            return None
        raise DataError(path, number, f"{error}; expected a word and its numbers") from error
    if len(parts) != width:
        raise DataError(path, number, f"expected {width} numbers as in line 1, got {len(parts)}")
    if not (np.abs(vector) <= MAX_VALUE).all():  # nor if it is NaN
        text = f"a number is NaN, infinite or beyond ±{MAX_VALUE:,.0f}; use another file"
        raise DataError(path, number, text)
    return vector.astype(np.float32)
