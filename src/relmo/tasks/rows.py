"""Rows of labeled files: columns with a word per line, tables, and lines of two texts each.

Within a line, only the ASCII space and the tab are white space: a no-break space is part of its
word. Errors name the file and the line.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from relmo.errors import ConfigError, DataError, TextError
from relmo.tasks.data_files import WHITE, numbered_lines

TableFormat = Literal["csv", "tsv", "jsonl"]
FORMATS: dict[str, TableFormat] = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl"}
Tokenize = Callable[[str], list[str]]
"""Splits a text into words."""
MAX_SHOWN = 200
"""Characters of a table's column names that an error shows."""
Line = tuple[int, str]
"""Number of a line, counted from 1, and its text."""
_CELL = re.compile(f"[^{WHITE}]+")
_WORD = re.compile(r"[^ \t\n\r\f\v]+")


def split_cells(line: str, has_tabs: bool | None = None) -> list[str]:
    """The cells of a line, separated by tabs or by runs of spaces.

    Args:
        line: the text of one line.
        has_tabs: whether tabs separate the cells, which may then contain spaces and may be empty;
            by default, they do where the line has one.
    """
    if "\t" in line if has_tabs is None else has_tabs:
        return [cell.strip(" ") for cell in line.split("\t")]
    return _CELL.findall(line)


def sentence_lines(
    path: str | Path, comment: str | None = None, boundary: str | None = None
) -> Iterator[list[Line]]:
    """The lines of each sentence of a file.

    Args:
        path: the file, decompressed as its suffix says.
        comment: how lines begin that are skipped.
        boundary: how lines begin that end a sentence as a blank line does.
    """
    lines: list[Line] = []
    for number, line in numbered_lines(path):
        if comment and line.startswith(comment):
            continue
        if line.strip(WHITE) and not (boundary and line.startswith(boundary)):
            lines.append((number, line))
        elif lines:
            yield lines
            lines = []
    if lines:
        yield lines


class TableRow:
    """A row of a table; errors name its file and line.

    Args:
        path: the file.
        number: the line that the row begins at.
        cells: column name -> value.
    """

    def __init__(self, path: str | Path, number: int, cells: Mapping[str, object]) -> None:
        self.path, self.number, self.cells = path, number, cells

    def error(self, reason: str) -> DataError:
        """An error about this row."""
        return DataError(self.path, self.number, reason)

    def text(self, name: str) -> str:
        """The value of a column without surrounding white space; DataError if it is empty."""
        if name not in self.cells:
            known = ", ".join(repr(each) for each in self.cells) or "none"
            known = known if len(known) <= MAX_SHOWN else f"{known[:MAX_SHOWN]} …"
            raise self.error(f"no column {name!r}; found {known}: rename one of these")
        value = self.cells[name]
        if isinstance(value, bool | int | float):
            value = json.dumps(value)
        if not isinstance(value, str):
            raise self.error(f"{name!r} must be a string, got {json.dumps(value)[:40]}")
        if not (text := value.strip(" \t\n\r\f\v")):
            raise self.error(f"{name!r} is empty; fill it in or delete the row")
        return text

    def words(self, name: str, tokenize: Tokenize) -> tuple[str, ...]:
        """The words of a column; DataError if there are none."""
        words = tuple(tokenize(self.text(name)))
        if not words:
            raise self.error(f"{name!r} contains no words; fill it in or delete the row")
        return words


def table_rows(path: str | Path, kind: TableFormat | None = None) -> Iterator[TableRow]:
    """The rows of a table; blank lines are skipped.

    Args:
        path: the file. CSV may quote its cells; in TSV a quote is an ordinary character.
        kind: the table's format; by default the one that the file's suffix names.
    """
    kind = kind or format_of(path)
    rows = _json_rows(path) if kind == "jsonl" else _named_rows(path, kind)
    return (TableRow(path, number, cells) for number, cells in rows)


def format_of(path: str | Path) -> TableFormat:
    """The format that a file's suffix names, apart from one of compression."""
    name = Path(path).name.lower()
    for packed in (".gz", ".xz", ".zst"):
        name = name.removesuffix(packed)
    if (suffix := Path(name).suffix) not in FORMATS:
        known = ", ".join(FORMATS)
        raise ConfigError(f"{path}: unknown table format {suffix!r}; use one of {known}")
    return FORMATS[suffix]


def split_at_spaces(text: str) -> list[str]:
    """Words of a text that is already tokenized; a no-break space stays part of its word."""
    return _WORD.findall(text)


def tab_pairs(lines: Iterable[str], first: str, second: str) -> Iterator[tuple[int, str, str]]:
    """(line number, first, second) of each line that is not blank: two texts with a tab between.

    Args:
        lines: of plain text.
        first: what the first text is, in the words of an error: "a question".
        second: what the second text is.
    """
    for number, line in enumerate(lines, 1):
        one, _, other = line.partition("\t")
        if one.strip() and other.strip():
            yield number, one, other
        elif line.strip():
            wanted = f"{first}, a tab and {second}"
            raise TextError(f"line {number}: expected {wanted}, got {line[:40]!r}")


def _json_rows(path: str | Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    for number, line in numbered_lines(path):
        if not line.strip(WHITE):
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(path, number, f"invalid JSON ({error})") from error
        if not isinstance(row, dict):
            raise DataError(path, number, f"expected one object {{…}} per line, got {line[:30]!r}")
        yield number, row


def _named_rows(path: str | Path, kind: TableFormat) -> Iterator[tuple[int, Mapping[str, object]]]:
    rows = _csv_rows(path) if kind == "csv" else _tsv_rows(path)
    first, names = next(rows, (1, []))
    if len(set(names)) < len(names):
        raise DataError(path, first, f"two columns have the same name: {', '.join(names)}")
    for number, cells in rows:
        if len(cells) != len(names):
            what = f"{len(cells)} cells, but {len(names)} column names in line {first}"
            raise DataError(path, number, f"{what}; every row needs the same number")
        yield number, dict(zip(names, cells, strict=True))


def _tsv_rows(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in numbered_lines(path):
        if line.strip(WHITE):
            yield number, line.split("\t")


def _csv_rows(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((line + "\n" for _, line in numbered_lines(path)), strict=True)
    number = 1
    try:
        for cells in reader:
            if cells:  # a blank line has none
                yield number, cells
            number = reader.line_num + 1
    except csv.Error as error:
        raise DataError(path, number, f"invalid CSV ({error}); are all quotes closed?") from error
