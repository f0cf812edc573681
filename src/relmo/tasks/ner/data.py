"""Files -> tagged sentences: columns as in CoNLL-2003 or CoNLL-U, and JSONL or Parquet.

Rows of the latter have lists of words and of their tags, or a text and its labeled spans.
"""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Literal, TypeGuard

from relmo.errors import ConfigError, DataError
from relmo.tasks.data_files import not_empty, numbered_lines, sentence_lines, split_cells
from relmo.tasks.plain_text import Places, sentences_of
from relmo.tasks.tables import Columns, TableRow, filled_rows

DOCUMENT = "-DOCSTART-"
"""Beginning of a line that marks the start of a document."""

FEWEST_DOCUMENTS = 10
"""Of fewer documents in one file, none can be held out whole: their sentences are split apart."""

ConlluColumn = Literal["upos", "xpos"]
CONLLU_COLUMNS = {"upos": 3, "xpos": 4}
CONLLU_WIDTH = 10
CONLLU_DOCUMENT = "# newdoc"
NOT_GIVEN = "_"
"""CoNLL-U's sign for an empty column."""
NOT_A_WORD = re.compile(r"\d+[-.]\d+")
"""Number of a CoNLL-U line that is not a word: a range (1-2) or an empty node (1.1)."""

ROWS = (
    "a word and its tag in every line, separated by spaces or a tab, and a blank line after each "
    "sentence; or a table, .jsonl or .parquet"
)
"""What a file of columns is, for errors."""
EMPTY = "sentences; expected a word and tag"
"""What a file without sentences lacks, for errors."""

TaggedWord = tuple[int, str, str]
"""Line number, word, tag."""


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """The words of a sentence and a tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    places: Places | None = field(default=None, compare=False)
    document: int | str = field(default=0, compare=False)
    """The number of its document in a file of columns, or the row of a table; 0 if unknown."""


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
    found = _sentences(path, _column_words(path, word_column, tag_column), DOCUMENT)
    return not_empty(path, found, EMPTY)


def line_of_tag(path: str | Path, tags: Collection[str]) -> tuple[int, str]:
    """The line of a file of columns that has the first of these tags, and which tag it is."""
    words = chain.from_iterable(_column_words(path, 0, -1))
    return next((number, tag) for number, _, tag in words if tag in tags)


def read_tagged_table(path: str | Path, columns: Columns) -> list[TaggedSentence]:
    """All sentences of a JSONL or Parquet file.

    {"tokens": ["Ann", "sings"], "tags": ["B-PER", "O"]}         words and their tags
    {"text": "Ann sings.", "label": [[0, 3, "PER"]]}             a text and its spans

    A span is its first character, the one after its last, and its label, or an object with the
    keys start, end and label. The text is split into sentences and words.
    """
    text, label = columns
    assert text is not None
    assert label is not None
    found: list[TaggedSentence] = []
    for row in filled_rows(path, (text, label)):
        words, tags = row.cells[text], row.cells[label]
        if isinstance(words, str):
            found += _spans_to_tags(row, words, tags, label)
        elif not (_are_strings(words) and _are_strings(tags) and len(words) == len(tags)):
            what = f"{text!r} and {label!r} must be lists of words and of their tags, as many"
            raise row.error(f'{what}; or a text and its spans, [[0, 3, "PER"], …]')
        elif words:
            found.append(TaggedSentence(tuple(words), tuple(tags), document=row.number))
    return not_empty(path, found, "sentences; expected one")


def read_conllu(path: str | Path, column: ConlluColumn = "upos") -> list[TaggedSentence]:
    """All sentences of a CoNLL-U file, tagged with its UPOS or its XPOS.

    Comments, ranges of words that are written as one (1-2) and empty nodes (1.1) are skipped.

    Args:
        path: the file, decompressed as its suffix says.
        column: the tags to read.
    """
    if column not in CONLLU_COLUMNS:
        raise ConfigError(f"column must be one of {', '.join(CONLLU_COLUMNS)}, got {column!r}")
    found = _sentences(path, _conllu_words(path, column), CONLLU_DOCUMENT)
    return not_empty(path, found, EMPTY)


def read_conllu_documents(path: str | Path) -> list[list[tuple[str, ...]]]:
    """The words of each sentence of each document (`# newdoc`) of a CoNLL-U file; tags are ignored.

    The same lines as by `read_conllu` are skipped.
    """
    found = _sentences(path, _conllu_words(path, None), CONLLU_DOCUMENT, fewest=1)
    by_document = groupby(not_empty(path, found, "sentences; expected a word"), _document)
    return [[sentence.words for sentence in each] for _, each in by_document]


def _document(sentence: TaggedSentence) -> int | str:
    return sentence.document


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
                raise DataError(path, number, f"{what}; expected {ROWS}")
        yield [(number, cells[word], cells[tag]) for number, cells in rows]


def _check_columns(
    path: str | Path, number: int, width: int, has_tabs: bool, word: int, tag: int
) -> None:
    """Raise DataError unless a first row of this width has a column for the word and the tag."""
    came = _count(width, has_tabs)
    if width == 1:
        raise DataError(path, number, f"{came}; expected {ROWS}")
    is_there = all(-width <= column < width for column in (word, tag))
    if not is_there or word % width == tag % width:
        what = f"{came}, expected a word in column {word} and a tag in column {tag}"
        raise DataError(path, number, f"{what}; choose other columns or fix the line")


def _conllu_words(path: str | Path, column: ConlluColumn | None) -> Iterator[list[TaggedWord]]:
    """The words of each sentence of a CoNLL-U file; without a column, no tag is read."""
    for lines in sentence_lines(path, comment="#"):
        words: list[TaggedWord] = []
        for number, line in lines:
            cells = split_cells(line, has_tabs=True)
            if len(cells) != CONLLU_WIDTH:
                came = _count(len(cells), has_tabs=True)
                raise DataError(path, number, f"{came}, expected the {CONLLU_WIDTH} of CoNLL-U")
            if cells[0].isdecimal():
                tag = cells[CONLLU_COLUMNS[column]] if column else NOT_GIVEN
                words.append((number, cells[1], tag))
            elif not NOT_A_WORD.fullmatch(cells[0]):
                what = f"{cells[0]!r} is not a word number; is this CoNLL-U?"
                raise DataError(path, number, what)
            if column and words and words[-1][2] == NOT_GIVEN:
                what = f"the word has no {column.upper()}; read the other column"
                raise DataError(path, number, what)
        yield words


def _count(width: int, has_tabs: bool) -> str:
    noun = "column" if width == 1 else "columns"
    return f"{width} {noun} separated by {'tabs' if has_tabs else 'spaces'}"


def _sentences(
    path: str | Path,
    sentences: Iterable[list[TaggedWord]],
    boundary: str,
    fewest: int = FEWEST_DOCUMENTS,
) -> list[TaggedSentence]:
    found: list[TaggedSentence] = []
    starts = [number for number, line in numbered_lines(path) if line.startswith(boundary)]
    for sentence in filter(None, sentences):
        for number, word, tag in sentence:
            if not word or not tag:
                what = f"the {'tag' if word else 'word'} is empty; fill it in or delete the line"
                raise DataError(path, number, what)
        numbers, words, tags = zip(*sentence, strict=True)
        document = bisect(starts, numbers[0]) if len(starts) >= fewest else 0
        found.append(TaggedSentence(words, tags, document=document))
    return found


def _are_strings(value: object) -> TypeGuard[list[str]]:
    """Whether a value of a table is a list of strings that are not empty."""
    return isinstance(value, list) and all(isinstance(each, str) and each for each in value)


def _spans_to_tags(
    row: TableRow, text: str, spans: object, column: str
) -> Iterator[TaggedSentence]:
    """The sentences of a text, tagged B- and I- where words overlap with its spans."""
    found: list[tuple[int, int, str]] = []
    for span in spans if isinstance(spans, list) else [spans]:
        if isinstance(span, dict):
            span = [span.get(key) for key in ("start", "end", "label")]
        match span:
            case [int(start), int(end), str(label)] if label and 0 <= start < end <= len(text):
                found.append((start, end, label))
            case _:
                what = f"{column!r}: {json.dumps(span, default=str)[:60]} is no span of the text"
                raise row.error(f'{what}, such as [0, 3, "PER"]: start, end, label')
    found.sort()
    for before, after in pairwise(found):
        if after[0] < before[1]:
            raise row.error(f"{column!r}: {[*after]} overlaps with another span; keep one")
    ends = [end for _, end, _ in found]
    for words, places in sentences_of(text):
        tags, last = [], None
        for start, end in zip(places.starts, places.ends, strict=True):
            at = bisect(ends, start)  # the first span that ends after the word's first character
            if at == len(found) or found[at][0] >= end:
                tags.append("O")
                last = None
            else:
                tags.append(f"{'I' if at == last else 'B'}-{found[at][2]}")
                last = at
        yield TaggedSentence(words, tuple(tags), document=row.number)
