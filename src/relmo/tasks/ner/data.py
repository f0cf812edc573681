"""Files of columns -> tagged sentences: CoNLL-2003, any two-column file, CoNLL-U.

One word stands on a line, a blank line ends a sentence. Only the ASCII space and the tab are white
space here: a no-break space is part of its word.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal

from relmo.errors import ConfigError, DataError
from relmo.tasks.data_files import WHITE, numbered_lines
from relmo.tasks.plain_text import Offsets

PIECE = re.compile(f"[^{WHITE}]+")
DOCUMENT = "-DOCSTART-"
"""What a line begins with that only says where a document starts."""

ConlluColumn = Literal["upos", "xpos"]
CONLLU_COLUMNS = {"upos": 3, "xpos": 4}
CONLLU_WIDTH = 10
NO_WORD = re.compile(r"\d+[-.]\d+")
"""Number of a CoNLL-U line that is no word: a range (1-2) or an empty node (1.1)."""

Row = tuple[int, str, str]
"""Number of the line, word, tag."""


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """The words of a sentence and a tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    places: Offsets = field(default=(), compare=False)


def read_columns(
    path: str | Path, word_column: int = 0, tag_column: int = -1
) -> list[TaggedSentence]:
    """All sentences of a file of columns; lines that begin with `-DOCSTART-` are passed over.

    Columns are parted by tabs if the first line with a word has one, and may then hold spaces;
    else by any run of spaces. Every line must have as many columns as that one.

    Args:
        path: the file, decompressed as its suffix says.
        word_column: where the word stands, counted from 0; negative numbers count from the end.
        tag_column: where the tag stands, likewise.
    """
    return _sentences(path, _column_rows(path, word_column, tag_column))


def line_of_tag(path: str | Path, tags: Collection[str]) -> tuple[int, str]:
    """Where in a file of columns the first of these tags stands, and which it is."""
    rows = (row for row in _column_rows(path, 0, -1) if row is not None)
    return next((number, tag) for number, _, tag in rows if tag in tags)


def read_conllu(path: str | Path, column: ConlluColumn = "upos") -> list[TaggedSentence]:
    """All sentences of a CoNLL-U file, tagged with its UPOS or its XPOS.

    Comments, ranges of words that are written as one (1-2) and empty nodes (1.1) are passed over.
    """
    if column not in CONLLU_COLUMNS:
        raise ConfigError(f"column is {column!r}; choose one of {', '.join(CONLLU_COLUMNS)}")
    return _sentences(path, _conllu_rows(path, column))


@dataclass(frozen=True, slots=True)
class _Layout:
    """How the lines of one file are parted, as its first line with a word shows."""

    path: str | Path
    first: int
    has_tabs: bool
    width: int
    word: int
    tag: int

    @classmethod
    def of(
        cls, path: str | Path, number: int, line: str, word_column: int, tag_column: int
    ) -> _Layout:
        has_tabs = "\t" in line
        width = len(_cells(line, has_tabs))
        wanted = (word_column, tag_column)
        if width == 1:
            what = (
                f"{_count(width, has_tabs)}; a word and its tag are needed, a space or tab between"
            )
            raise DataError(path, number, what)
        is_there = all(-width <= column < width for column in wanted)
        if not is_there or word_column % width == tag_column % width:
            raise DataError(
                path,
                number,
                f"{_count(width, has_tabs)}, which hold no word in column {word_column} with a "
                f"tag in column {tag_column}; name other columns or mend the line",
            )
        return cls(path, number, has_tabs, width, word_column % width, tag_column % width)

    def row(self, number: int, line: str) -> Row:
        cells = _cells(line, self.has_tabs)
        if len(cells) != self.width:
            raise DataError(
                self.path,
                number,
                f"{_count(len(cells), self.has_tabs)}, but {self.width} in line {self.first}; "
                f"give each line as many",
            )
        return number, cells[self.word], cells[self.tag]


def _column_rows(path: str | Path, word_column: int, tag_column: int) -> Iterator[Row | None]:
    """A row for each word, None between sentences."""
    layout: _Layout | None = None
    for number, line in numbered_lines(path):
        if not line.strip(WHITE) or line.startswith(DOCUMENT):
            yield None
            continue
        if layout is None:
            layout = _Layout.of(path, number, line, word_column, tag_column)
        yield layout.row(number, line)


def _conllu_rows(path: str | Path, column: ConlluColumn) -> Iterator[Row | None]:
    """A row for each word, None between sentences."""
    for number, line in numbered_lines(path):
        if line.startswith("#"):
            continue
        if not line.strip(WHITE):
            yield None
            continue
        cells = _cells(line, has_tabs=True)
        if len(cells) != CONLLU_WIDTH:
            what = f"{_count(len(cells), has_tabs=True)}; CoNLL-U has {CONLLU_WIDTH}"
            raise DataError(path, number, what)
        if cells[0].isdecimal():
            yield number, cells[1], _conllu_tag(path, number, cells, column)
        elif not NO_WORD.fullmatch(cells[0]):
            raise DataError(path, number, f"{cells[0]!r} is no number of a word; is this CoNLL-U?")


def _conllu_tag(path: str | Path, number: int, cells: list[str], column: ConlluColumn) -> str:
    tag = cells[CONLLU_COLUMNS[column]]
    if tag == "_":  # CoNLL-U's word for "not given"
        raise DataError(path, number, f"the word has no {column.upper()}; read the other column")
    return tag


def _cells(line: str, has_tabs: bool) -> list[str]:
    if has_tabs:
        return [cell.strip(" ") for cell in line.split("\t")]
    return PIECE.findall(line)


def _count(width: int, has_tabs: bool) -> str:
    noun = "column" if width == 1 else "columns"
    return f"{width} {noun} parted by {'tabs' if has_tabs else 'spaces'}"


def _sentences(path: str | Path, rows: Iterable[Row | None]) -> list[TaggedSentence]:
    found: list[TaggedSentence] = []
    words: list[str] = []
    tags: list[str] = []
    for row in chain(rows, [None]):
        if row is not None:
            words.append(_not_empty(path, row[0], "word", row[1]))
            tags.append(_not_empty(path, row[0], "tag", row[2]))
        elif words:
            found.append(TaggedSentence(tuple(words), tuple(tags)))
            words, tags = [], []
    if not found:
        raise DataError(path, 1, "no sentence in the file; give one word and its tag per line")
    return found


def _not_empty(path: str | Path, number: int, name: str, value: str) -> str:
    if not value:
        raise DataError(path, number, f"the {name} is empty; fill it in or delete the line")
    return value
