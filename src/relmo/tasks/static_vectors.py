"""Static word vectors, of the words that occur alone: GloVe's and word2vec's text files.

    the 0.418 0.24968 …        a word, a space, its numbers; every line has as many as the first

word2vec's files begin with a line of two whole numbers, how many words and how wide. A word that
holds spaces itself cannot be asked for: its line is passed over.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from relmo.errors import ConfigError, DataError, TextError
from relmo.text.documents import open_text, read_lines

Vector = NDArray[np.float32]


class StaticVectors:
    """Words and their vectors; rows 0 and 1 are padding and the unknown word.

    Args:
        words: of rows 2 onwards.
        table: (2 + words, width) float32.
    """

    def __init__(self, words: Iterable[str], table: Vector) -> None:
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
    """Vectors of the wanted words, and of their lower-case forms; the file is read once.

    Of a word that stands there twice the first vector counts.
    """
    forms = wanted | {word.lower() for word in wanted}
    found: dict[str, Vector] = {}
    for number, word, values in _lines(path):
        if number == 1:
            width = _width(word, values, path)
            if _is_header(word, values):
                continue
        if word in forms and word not in found:
            vector = _parse(values, width, path, number)
            if vector is not None:
                found[word] = vector
    if not found:
        raise DataError(path, 1, "holds no vector of any word of this data; is it the language's?")
    rows = np.stack(list(found.values()))
    unknown = np.random.default_rng(0).normal(0, float(rows.std()), width)
    return StaticVectors(found, np.concatenate([np.zeros((1, width)), [unknown], rows], dtype="f4"))


def random_vectors(words: Iterable[str], width: int, seed: int = 0) -> StaticVectors:
    """Vectors to be trained from nothing, for data without a file of them."""
    known = sorted(set(words))
    table = np.random.default_rng(seed).normal(0, 0.1, (len(known) + 2, width))
    table[0] = 0
    return StaticVectors(known, table.astype(np.float32))


def _lines(path: Path) -> Iterator[tuple[int, str, str]]:
    """Number, word and values of each line; bytes that are no UTF-8 make a word nobody asks for."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; a text file of word vectors is needed")
    try:
        with open_text(path) as file:
            for number, line in enumerate(read_lines(file, str(path), "replace"), 1):
                word, _, values = line.partition(" ")
                yield number, word, values
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise TextError(f"{path}: cannot be read ({error}); is the file complete?") from error


def _is_header(word: str, values: str) -> bool:
    """Whether a first line is word2vec's: how many words and how wide."""
    return word.isdecimal() and values.strip().isdecimal()


def _width(word: str, values: str, path: Path) -> int:
    """Numbers of a vector, by the first line."""
    width = int(values) if _is_header(word, values) else len(values.split())
    if not width:
        raise DataError(path, 1, "no numbers; a word, a space and its numbers are needed")
    return width


def _parse(values: str, width: int, path: Path, number: int) -> Vector | None:
    """A line's numbers; None where some of them are rather words: it is of a word with spaces."""
    parts = values.split()
    try:
        vector = np.array(parts, dtype=np.float32)
    except ValueError as error:
        if len(parts) > width:
            return None
        raise DataError(path, number, f"{error}; a word and its numbers are needed") from error
    if len(parts) != width:
        raise DataError(path, number, f"{len(parts)} numbers; {width} as in the first line needed")
    if not np.isfinite(vector).all():
        raise DataError(path, number, "a number is NaN or infinite; take another file")
    return vector
