"""CoNLL-2012 columns with PropBank frames -> one frame per predicate, its roles as BIO tags.

    # a comment
    file  0  0  She   PRP  (S*    -     -        (ARG0*)
    file  0  1  sang  VBD  *)     sing  sing.01  (V*)

Cells are parted by tabs, or by spaces where a row has no tab; a blank line ends a sentence. The
n-th row with a frame (column 8) is the predicate of the n-th column of roles. The roles stand last,
or, in the full layout of CoNLL-2012, after three more columns and before that of coreference.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from relmo.errors import DataError
from relmo.tasks.data_files import numbered_lines
from relmo.tasks.plain_text import Offsets

WORD, FRAME, NUM_FIXED = 3, 7, 8
"""Columns of the word and of the frame, and how many stand before the roles."""
NONE = frozenset("-_")
_CELL = re.compile(r"(?:\((?P<label>[^()*\s]+))?\*(?P<close>\)?)")

Row: TypeAlias = tuple[int, list[str]]
"""Number of the line, and its cells."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A predicate and what its sentence says of it."""

    words: tuple[str, ...]
    """The same object in all frames of a sentence."""
    predicate: int
    """Position of the word that the frame is of."""
    tags: tuple[str, ...]
    """B-ARG0, I-ARG0, O …, one per word; the predicate itself is B-V."""
    places: Offsets = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a file."""

    items: tuple[Frame, ...]
    num_sentences: int
    """All sentences of the file, those without a predicate among them."""


def read_frames(path: str | Path) -> Frames:
    """All frames of a file, in order."""
    path = Path(path)
    frames: list[Frame] = []
    num_sentences = 0
    for rows in _sentences(path):
        frames += _frames(rows, path)
        num_sentences += 1
    return Frames(tuple(frames), num_sentences)


def _sentences(path: Path) -> Iterator[list[Row]]:
    """The rows of each sentence, all of one length."""
    rows: list[Row] = []
    for number, line in numbered_lines(path):
        if line.startswith("#"):
            continue
        if line.strip():
            rows.append((number, _cells(line)))
            _check_width(rows, path)
        elif rows:
            yield rows
            rows = []
    if rows:
        yield rows


def _cells(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]


def _check_width(rows: list[Row], path: Path) -> None:
    """Raise if the last row is too short or unlike the first."""
    (_, first), (number, cells) = rows[0], rows[-1]
    if len(cells) < NUM_FIXED:
        what = f"{len(cells)} columns, at least {NUM_FIXED} are wanted: file … lemma, frame"
        raise DataError(path, number, what)
    if len(cells) != len(first):
        what = f"{len(cells)} columns, the sentence began with {len(first)}; is a blank line lost?"
        raise DataError(path, number, what)
    if not cells[WORD].strip():
        raise DataError(path, number, "the word is empty; every row needs one in column 4")


def _frames(rows: list[Row], path: Path) -> Iterator[Frame]:
    """The frames of a sentence."""
    words = tuple(sys.intern(cells[WORD]) for _, cells in rows)
    predicates = [i for i, (_, cells) in enumerate(rows) if cells[FRAME] not in NONE]
    first_column = _first_column(rows, len(predicates), path)
    for column, predicate in enumerate(predicates, start=first_column):
        tags = _tags(rows, column, path)
        if tags[predicate][2:].removeprefix("C-") != "V":
            what = f"column {column + 1} has no V at its predicate {words[predicate]!r}"
            raise DataError(path, rows[predicate][0], f"{what}; are columns missing or swapped?")
        yield Frame(words, predicate, tags)


def _first_column(rows: list[Row], num_predicates: int, path: Path) -> int:
    """Where the roles begin: after 8 columns, or after 11 with one more behind them."""
    number, cells = rows[0]
    extra = len(cells) - NUM_FIXED - num_predicates
    if extra not in (0, 4):
        what = f"the sentence has {len(cells)} columns for {num_predicates} predicate(s)"
        wanted = f"{NUM_FIXED} and one for each are wanted"
        raise DataError(path, number, f"{what}; {wanted}, or 4 more as in CoNLL-2012")
    return NUM_FIXED + (3 if extra else 0)


def _tags(rows: list[Row], column: int, path: Path) -> tuple[str, ...]:
    """One column of brackets as BIO tags."""
    tags: list[str] = []
    label, opened = "", 0
    for number, cells in rows:
        cell = _CELL.fullmatch(cells[column])
        if cell is None or (cell["label"] and label) or (cell["close"] and not (label or cell[1])):
            raise DataError(path, number, _complaint(cells[column], column, label))
        if cell["label"]:
            label, opened = cell["label"], number
            tags.append(sys.intern(f"B-{label}"))
        else:
            tags.append(sys.intern(f"I-{label}") if label else "O")
        label = "" if cell["close"] else label
    if label:
        raise DataError(path, opened, f"({label}* in column {column + 1} is never closed by *)")
    return tuple(tags)


def _complaint(cell: str, column: int, label: str) -> str:
    """What is wrong with a cell of roles."""
    what = f"{cell!r} in column {column + 1}"
    if not _CELL.fullmatch(cell):
        return f"{what}; one of (ARG0*  *  *)  (ARG0*) is wanted"
    if cell.endswith(")") and not cell.startswith("("):
        return f"{what} closes a role that was never opened"
    return f"{what} opens a role inside ({label}*, which is still open; close it with *) first"
