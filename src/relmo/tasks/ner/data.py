"""Files of columns -> tagged sentences: CoNLL-2003, any two-column file, CoNLL-U."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal

from relmo.errors import ConfigError, DataError
from relmo.tasks.data_files import not_empty, sentence_lines, split_cells
from relmo.tasks.plain_text import Offsets

DOCUMENT = "-DOCSTART-"
"""Beginning of a line that marks the start of a document."""

ConlluColumn = Literal["upos", "xpos"]
CONLLU_COLUMNS = {"upos": 3, "xpos": 4}
CONLLU_WIDTH = 10
NOT_A_WORD = re.compile(r"\d+[-.]\d+")
"""Number of a CoNLL-U line that is not a word: a range (1-2) or an empty node (1.1)."""

TaggedWord = tuple[int, str, str]
"""Line number, word, tag."""


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """The words of a sentence and a tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    places: Offsets = field(default=(), compare=False)


def read_columns(
    path: str | Path, word_column: int = 0, tag_column: int = -1
) -> list[TaggedSentence]:
    """All sentences of a file of columns; lines that begin with `-DOCSTART-` are skipped.

    Columns are separated by tabs if the first line with a word has one, and may then contain
    spaces; else by runs of spaces. Every line must have as many columns as that one.

    Args:
        path: the file, decompressed as its suffix says.
        word_column: index of the word's column; negative numbers count from the end.
        tag_column: index of the tag's column, likewise.
    """
    return _sentences(path, _column_words(path, word_column, tag_column))


def line_of_tag(path: str | Path, tags: Collection[str]) -> tuple[int, str]:
    """The line of a file of columns that has the first of these tags, and which tag it is."""
    words = chain.from_iterable(_column_words(path, 0, -1))
    return next((number, tag) for number, _, tag in words if tag in tags)


def read_conllu(path: str | Path, column: ConlluColumn = "upos") -> list[TaggedSentence]:
    """All sentences of a CoNLL-U file, tagged with its UPOS or its XPOS.

    Comments, ranges of words that are written as one (1-2) and empty nodes (1.1) are skipped.
    """
    if column not in CONLLU_COLUMNS:
        raise ConfigError(f"column must be one of {', '.join(CONLLU_COLUMNS)}, got {column!r}")
    return _sentences(path, _conllu_words(path, column))


def _column_words(path: str | Path, word: int, tag: int) -> Iterator[list[TaggedWord]]:
    """The words of each sentence of a file of columns."""
    first = width = 0  # line and width of the first row, which all others must have
    has_tabs = False
    for lines in sentence_lines(path, boundary=DOCUMENT):
        if not width:
            first, line = lines[0]
            has_tabs = "\t" in line
            width = len(split_cells(line, has_tabs))
            _check_columns(path, first, width, has_tabs, word, tag)
        rows = [(number, split_cells(line, has_tabs)) for number, line in lines]
        for number, cells in rows:
            if len(cells) != width:
                what = f"{_count(len(cells), has_tabs)}, but {width} in line {first}"
                raise DataError(path, number, f"{what}; every line needs the same number")
        yield [(number, cells[word], cells[tag]) for number, cells in rows]


def _check_columns(
    path: str | Path, number: int, width: int, has_tabs: bool, word: int, tag: int
) -> None:
    """Raise DataError unless a first row of this width has a column for the word and the tag."""
    came = _count(width, has_tabs)
    if width == 1:
        what = f"{came}; expected a word and its tag, separated by a space or a tab"
        raise DataError(path, number, what)
    is_there = all(-width <= column < width for column in (word, tag))
    if not is_there or word % width == tag % width:
        what = f"{came}, expected a word in column {word} and a tag in column {tag}"
        raise DataError(path, number, f"{what}; choose other columns or fix the line")


def _conllu_words(path: str | Path, column: ConlluColumn) -> Iterator[list[TaggedWord]]:
    """The words of each sentence of a CoNLL-U file."""
    for lines in sentence_lines(path, comment="#"):
        words: list[TaggedWord] = []
        for number, line in lines:
            cells = split_cells(line, has_tabs=True)
            if len(cells) != CONLLU_WIDTH:
                came = _count(len(cells), has_tabs=True)
                raise DataError(path, number, f"{came}, expected the {CONLLU_WIDTH} of CoNLL-U")
            if cells[0].isdecimal():
                words.append((number, cells[1], cells[CONLLU_COLUMNS[column]]))
            elif not NOT_A_WORD.fullmatch(cells[0]):
                what = f"{cells[0]!r} is not a word number; is this CoNLL-U?"
                raise DataError(path, number, what)
            if words and words[-1][2] == "_":  # CoNLL-U's sign for "not given"
                what = f"the word has no {column.upper()}; read the other column"
                raise DataError(path, number, what)
        yield words


def _count(width: int, has_tabs: bool) -> str:
    noun = "column" if width == 1 else "columns"
    return f"{width} {noun} separated by {'tabs' if has_tabs else 'spaces'}"


def _sentences(path: str | Path, sentences: Iterable[list[TaggedWord]]) -> list[TaggedSentence]:
    found: list[TaggedSentence] = []
    for sentence in filter(None, sentences):
        for number, word, tag in sentence:
            if not word or not tag:
                what = f"the {'tag' if word else 'word'} is empty; fill it in or delete the line"
                raise DataError(path, number, what)
        _, words, tags = zip(*sentence, strict=True)
        found.append(TaggedSentence(words, tags))
    return not_empty(path, found, "sentences; expected a word and tag")
