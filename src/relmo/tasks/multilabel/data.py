"""Texts with any number of labels each: tables in CSV, TSV, JSONL or Parquet.

{"text": "Oh no, thank you!", "labels": ["joy", "fear"]}    a list has one label per item
Oh no, thank you!<tab>joy, fear                            a string is split at , and ; and |

Brackets around such a string and quotes around its labels are dropped, so that lists which another
program wrote as strings, "['joy', 'fear']", are read too. A label that contains one of the three
separators must stand in a list. No labels are an empty list, [], in a string too; an empty cell is
one that somebody has yet to fill in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from relmo.tasks.data_files import Tokenize, not_empty, split_at_spaces
from relmo.tasks.tables import SPACE, Columns, TableRow, filled_rows

SEPARATORS = re.compile(r"[,;|]")
QUOTES = "\"'"
DEFAULT_COLUMNS = Columns("text", "labels")


@dataclass(frozen=True, slots=True)
class MultilabelText:
    """A text and its labels, distinct and sorted."""

    words: tuple[str, ...]
    labels: tuple[str, ...]


def read_table(
    path: str | Path,
    tokenize: Tokenize = split_at_spaces,
    columns: Columns = DEFAULT_COLUMNS,
) -> list[MultilabelText]:
    """The texts of a CSV, TSV, JSONL or Parquet file; its suffix names the format.

    Args:
        path: the file. CSV and TSV begin with the names of their columns. Rows with an empty cell
            are skipped with a warning; an empty list of labels is not an empty cell.
        tokenize: splits a text into words; by default at spaces, for texts already tokenized.
        columns: which ones to read.
    """
    text, label = columns
    assert text is not None
    assert label is not None
    rows = filled_rows(path, (text, label))
    found = [MultilabelText(row.words(text, tokenize), labels_of(row, label)) for row in rows]
    return not_empty(path, found, "texts; expected one")


def labels_of(row: TableRow, name: str) -> tuple[str, ...]:
    """The labels in a column of a row, distinct and sorted."""
    value = row.cells[name]
    labels = _items(row, name, value) if isinstance(value, list) else _pieces(row, name)
    return tuple(sorted(set(labels)))


def _items(row: TableRow, name: str, items: Iterable[object]) -> list[str]:
    """The labels of a list: strings, numbers or truth values."""
    cells = [TableRow(row.path, row.number, {name: item}) for item in items]
    if any(cell.is_empty(name) for cell in cells):
        raise row.error(f"{name!r} contains an empty label; remove it from the list")
    return [cell.text(name) for cell in cells]


def _pieces(row: TableRow, name: str) -> list[str]:
    """The labels of a string."""
    text = row.text(name)
    is_list = text.startswith("[") and text.endswith("]")
    inner = text[1:-1].strip(SPACE) if is_list else text
    pieces = (_unquoted(piece.strip(SPACE)) for piece in SEPARATORS.split(inner))
    labels = [piece for piece in pieces if piece]
    if inner and not labels:
        raise row.error(f"{name!r} contains no labels, got {text[:40]!r}; write [] for none")
    return labels


def _unquoted(label: str) -> str:
    is_quoted = len(label) > 1 and label[0] == label[-1] and label[0] in QUOTES
    return label[1:-1].strip(SPACE) if is_quoted else label
