"""CoNLL-2012 columns with PropBank frames -> one frame per predicate, its roles as BIO tags.

    # a comment
    file  0  0  She   PRP  (S*    -     -        (ARG0*)
    file  0  1  sang  VBD  *)     sing  sing.01  (V*)

Cells are separated by tabs, or by spaces in a row without tabs; a blank line ends a sentence. The
n-th row with a frame (column 8) is the predicate of the n-th column of roles. The roles are the
last columns; in the full layout of CoNLL-2012, three more precede them and coreference follows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from relmo.errors import DataError
from relmo.tasks.data_files import sentence_lines, split_cells
from relmo.tasks.plain_text import Places

WORD, FRAME, NUM_FIXED = 3, 7, 8
"""Columns of the word and of the frame, and the number of columns before the roles."""
NONE = frozenset("-_")
NO_PREDICATE = -1
"""Position of the predicate of a sentence without any."""
_CELL = re.compile(r"(?:\((?P<label>[^()*\s]+))?\*(?P<close>\)?)")

Row: TypeAlias = tuple[int, list[str]]
"""Line number and cells."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A predicate and its arguments."""

    words: tuple[str, ...]
    """The same object in all frames of a sentence."""
    predicate: int
    """Position of the predicate; NO_PREDICATE in a sentence without any."""
    tags: tuple[str, ...]
    """B-ARG0, I-ARG0, O …, one per word; the predicate itself is B-V."""
    places: Places | None = field(default=None, compare=False)
    predicates: tuple[int, ...] = ()
    """Positions of all predicates of the sentence, in labelled data."""
    score: float = 1.0
    """The probability that there is a predicate at this position."""


def read_frames(path: str | Path, *, keeps_all: bool = False) -> list[Frame]:
    """All frames of a file, in order.

    A sentence without a predicate has none. With `keeps_all` it has one without a predicate, all
    of its tags O.
    """
    path = Path(path)
    frames: list[Frame] = []
    for lines in sentence_lines(path, comment="#"):
        rows = [(number, split_cells(line)) for number, line in lines]
        _check_width(rows, path)
        found = list(_frames(rows, path))
        if keeps_all and not found:
            words = tuple(sys.intern(cells[WORD]) for _, cells in rows)
            found = [Frame(words, NO_PREDICATE, ("O",) * len(words))]
        frames += found
    return frames


def _check_width(rows: list[Row], path: Path) -> None:
    """Raise DataError for a row that is too short or unlike the first of its sentence."""
    width = len(rows[0][1])
    for number, cells in rows:
        if len(cells) < NUM_FIXED:
            what = f"{len(cells)} columns, expected at least {NUM_FIXED}: file … lemma, frame"
            raise DataError(path, number, what)
        if len(cells) != width:
            what = f"{len(cells)} columns, but {width} in the first row of the sentence"
            raise DataError(path, number, f"{what}; is a blank line missing?")
        if not cells[WORD].strip():
            raise DataError(path, number, "the word in column 4 is empty; fill it in")


def _frames(rows: list[Row], path: Path) -> Iterator[Frame]:
    """The frames of a sentence."""
    words = tuple(sys.intern(cells[WORD]) for _, cells in rows)
    predicates = tuple(i for i, (_, cells) in enumerate(rows) if cells[FRAME] not in NONE)
    width = len(rows[0][1])
    extra = width - NUM_FIXED - len(predicates)
    if extra not in (0, 4):
        what = f"the sentence has {width} columns for {len(predicates)} predicate(s)"
        wanted = f"expected {NUM_FIXED} and one for each, or 4 more as in CoNLL-2012"
        raise DataError(path, rows[0][0], f"{what}; {wanted}")
    first_column = NUM_FIXED + (3 if extra else 0)  # one of the four follows the roles
    for column, predicate in enumerate(predicates, start=first_column):
        tags = _tags(rows, column, path)
        if tags[predicate][2:].removeprefix("C-") != "V":
            what = f"column {column + 1} has no V at its predicate {words[predicate]!r}"
            raise DataError(path, rows[predicate][0], f"{what}; are columns missing or swapped?")
        yield Frame(words, predicate, tags, predicates=predicates)


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
        raise DataError(path, opened, f"({label}* in column {column + 1} is not closed by *)")
    return tuple(tags)


def _complaint(cell: str, column: int, label: str) -> str:
    """The reason why a cell of roles is invalid."""
    what = f"{cell!r} in column {column + 1}"
    if not _CELL.fullmatch(cell):
        return f"{what}; expected one of (ARG0*  *  *)  (ARG0*)"
    if cell.endswith(")") and not cell.startswith("("):
        return f"{what} closes a role that is not open"
    return f"{what} opens a role inside ({label}*; close that with *) first"
