"""Tables with a word in each row, as reading-time data has them: read, grouped, and widened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relmo.errors import ConfigError, TextError
from relmo.tasks.tables import TableRow, shown, table_rows

if TYPE_CHECKING:
    from relmo.lm.surprisal import WordSurprisal


class WordTable:
    """A table in memory.

    Args:
        path: .csv, .tsv, .jsonl or .parquet, or one of these compressed.
        word: the column with the words.
        sentence: names of columns; consecutive rows with the same values there are a sentence.
        document: likewise of documents; by default each sentence is one.
    """

    def __init__(self, path: Path, word: str, sentence: str, document: str | None) -> None:
        self.path, self.word, self._rows = path, word, list(table_rows(path))
        if not self._rows:
            raise TextError(f"{path}: contains no rows; expected one per word")
        self.columns = list(dict.fromkeys(name for row in self._rows for name in row.cells))
        self._check(word)
        self._sentence = self._key(sentence)
        self._document = self._sentence if document is None else self._key(document)

    def documents(self) -> Iterator[list[list[str]]]:
        """The words of each sentence of each document; an empty cell is an empty word."""
        for _, document in groupby(self._rows, self._document):
            yield [
                ["" if row.is_empty(self.word) else row.text(self.word) for row in sentence]
                for _, sentence in groupby(document, self._sentence)
            ]

    def fields(self, added: Iterable[str]) -> list[str]:
        """The table's columns and those added, which give way to columns of the same name."""
        found = list(self.columns)
        for name in added:
            while name in found:
                name = f"relmo_{name}"
            found.append(name)
        return found

    def rows(self, measured: Iterable[WordSurprisal], *, as_text: bool) -> list[tuple[Any, ...]]:
        """The rows, each with its word's measures, which are empty if the word is.

        Args:
            measured: of all words, in order.
            as_text: the table's own numbers are written with all their digits.
        """
        found = []
        for row, word in zip(self._rows, measured, strict=True):
            kept = [row.cells.get(name) for name in self.columns]
            if as_text:
                kept = [repr(v) if isinstance(v, float) and v == v else v for v in kept]
            is_empty = word.surprisal != word.surprisal
            found.append((*kept, *(None if is_empty else value for value in word[3:])))
        return found

    def _key(self, given: str) -> Callable[[TableRow], list[str]]:
        """What rows of a group share; the names of several columns are separated by commas."""
        names = [given] if given in self.columns else given.split(",")
        for name in names:
            self._check(name)
        return lambda row: [repr(row.cells.get(name)) for name in names]

    def _check(self, name: str) -> None:
        if name not in self.columns:
            raise ConfigError(f"{self.path}: no column {name!r}; found {shown(self.columns)}")
