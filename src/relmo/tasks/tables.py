"""Tables of labeled data: the rows of CSV, TSV, JSONL and Parquet files, and which columns to read.

Errors name the file and the line a row begins at; in Parquet, which has no lines, the row.
"""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Literal, NamedTuple

from relmo.errors import ConfigError, DataError, TextError, TextWarning, need_extra
from relmo.tasks.data_files import WHITE, Tokenize, numbered_lines, stem_of

TableFormat = Literal["csv", "tsv", "jsonl", "parquet"]
FORMATS: dict[str, TableFormat] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".parquet": "parquet",
}
SPACE = " \t\n\r\f\v"
SEPARATORS = ",;\t"
"""Between the cells of a CSV file; the one that its first line has most often."""
TEXT_NAMES = (
    "text", "review", "reviews", "sentence", "content", "body", "comment", "message", "tweet",
    "document", "abstract", "description", "question", "utterance", "title", "headline",
)  # fmt: skip
"""Common names of the column with the texts, in lower case, the most telling first."""
MAX_SHOWN = 200
"""Characters of a table's column names that an error shows."""
MAX_LINES = 5
"""Lines that a warning about skipped rows names."""
LOOKED_AT = 100
"""Rows whose columns are looked at: in JSONL, a row may lack some."""
Row = tuple[int | str, Mapping[str, object]]
"""Where a row is, and its cells by column."""


class Columns(NamedTuple):
    """The names of the columns to read; None is found by common names."""

    text: str | None = None
    label: str | None = None

    def or_else(self, other: Columns) -> Columns:
        """These names, and the other ones where there are none."""
        return Columns(self.text or other.text, self.label or other.label)


NO_COLUMNS = Columns()
"""None is given."""
DEFAULT_COLUMNS = Columns("text", "label")


class TableRow:
    """A row of a table, column name -> value; errors name its file and the line it begins at."""

    def __init__(self, path: str | Path, number: int | str, cells: Mapping[str, object]) -> None:
        self.path, self.number, self.cells = path, number, cells

    def error(self, reason: str) -> DataError:
        """An error about this row."""
        return DataError(self.path, self.number, reason)

    def is_empty(self, name: str) -> bool:
        """Whether the row has no value in a column: nothing, null, NaN or white space."""
        value = self.cells.get(name)
        is_nan = isinstance(value, float) and value != value
        return value is None or is_nan or (isinstance(value, str) and not value.strip(SPACE))

    def text(self, name: str) -> str:
        """The value of a column without surrounding white space; DataError if it is empty."""
        if name not in self.cells:
            raise self.error(f"no column {name!r}; found {shown(self.cells)}: rename one of these")
        value = self.cells[name]
        if isinstance(value, bool | int | float):
            value = json.dumps(value)
        if not isinstance(value, str):
            raise self.error(
                f"{name!r} must be a string, got {json.dumps(value, default=str)[:40]}"
            )
        if not (text := value.strip(SPACE)):
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
    if kind is None:
        suffix = Path(stem_of(Path(path))).suffix
        if suffix not in FORMATS:
            known = ", ".join(FORMATS)
            raise ConfigError(f"{path}: unknown table format {suffix!r}; use one of {known}")
        kind = FORMATS[suffix]
    if kind == "parquet":
        rows = _parquet_rows(path)
    else:
        rows = _json_rows(path) if kind == "jsonl" else _named_rows(path, kind)
    return (TableRow(path, number, cells) for number, cells in rows)


# ── which columns ───────────────────────────────────────────────────────────────────────────────


def choose_columns(
    path: Path, asked: Columns, usual: Mapping[str, Sequence[str]], needed: Sequence[str]
) -> Columns:
    """The columns of a table to read: those asked for, else by name, else the only other one.

    Args:
        path: the table.
        asked: names that were given.
        usual: "text" and "label" -> common names in lower case, the most telling first.
        needed: which of the two must be found.
    """
    rows = islice(table_rows(path), LOOKED_AT)
    known = list(dict.fromkeys(name for row in rows for name in row.cells))
    if not known:
        raise TextError(f"{path}: contains no rows; expected one per text")
    found: dict[str, str] = {}
    for role in needed:
        name = getattr(asked, role)
        if name is not None and name not in known:
            raise ConfigError(f"{path}: no column {name!r}; found {shown(known)}")
        by_name = {each.strip().lower(): each for each in reversed(known)}
        guess = next((by_name[each] for each in usual[role] if each in by_name), None)
        if chosen := name or guess:
            found[role] = chosen
    for role in needed:
        others = [name for name in known if name not in found.values()]
        if role not in found and len(known) == 2 and len(others) == 1:
            found[role] = others[0]
    if missing := [role for role in needed if role not in found]:
        options = " and ".join(f"--{role} COLUMN" for role in missing)
        raise ConfigError(
            f"{path}: cannot tell which column is the {' or the '.join(missing)}; found "
            f"{shown(known)}: give {options} (the first line of CSV and TSV names the columns)"
        )
    if len(set(found.values())) < len(found):
        raise ConfigError(f"{path}: text and label cannot both be the column {found['text']!r}")
    return Columns(**found)


def filled_rows(path: str | Path, names: Sequence[str]) -> Iterator[TableRow]:
    """The rows with a value in all of these columns; a warning counts and names the others.

    If there are only others, an error names the column that is empty, or else the first one's.
    """
    skipped: list[TableRow] = []
    is_any = False
    for row in table_rows(path):
        if any(row.is_empty(name) for name in names):
            skipped.append(row)
        else:
            is_any = True
            yield row
    if skipped and not is_any:
        for name in names if len(skipped) > 1 else ():
            if all(name in row.cells and row.is_empty(name) for row in skipped):
                what = f"the column {name!r} is empty in all {len(skipped):,} rows"
                raise TextError(f"{path}: {what}; fill it in, or choose another column")
        for name in names:
            skipped[0].text(name)
    warn_of_skipped(skipped, names)


def warn_of_skipped(rows: Sequence[TableRow], names: Sequence[str]) -> None:
    """Warn of rows that are skipped as they lack a value in one of these columns, if any are."""
    if not rows:
        return
    first = [row.number for row in rows[:MAX_LINES]]
    places = ", ".join(f"line {each}" if isinstance(each, int) else each for each in first)
    more = ", …" if len(rows) > MAX_LINES else ""
    count = "1 row" if len(rows) == 1 else f"{len(rows):,} rows"
    lacking = " or ".join(map(repr, names))
    message = f"{rows[0].path}: {count} without {lacking} skipped: {places}{more}"
    warnings.warn(message, TextWarning, stacklevel=2)


def shown(names: Iterable[str]) -> str:
    """Column names for an error."""
    text = ", ".join(repr(each) for each in names) or "none"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]} …"


# ── formats ─────────────────────────────────────────────────────────────────────────────────────


def _json_rows(path: str | Path) -> Iterator[Row]:
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


def _named_rows(path: str | Path, kind: TableFormat) -> Iterator[Row]:
    lines = ((n, line.split("\t")) for n, line in numbered_lines(path) if line.strip(" "))
    rows = _csv_rows(path) if kind == "csv" else lines
    first, names = next(rows, (1, []))
    if len(set(names)) < len(names):
        raise DataError(path, first, f"two columns have the same name: {', '.join(names)}")
    for number, cells in rows:
        if len(cells) != len(names):
            what = f"{len(cells)} cells, but {len(names)} column names in line {first}"
            raise DataError(path, number, f"{what}; every row needs the same number")
        yield number, dict(zip(names, cells, strict=True))


def _csv_rows(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    lines = (line + "\n" for _, line in numbered_lines(path))
    head = next(lines, "")
    separator = max(SEPARATORS, key=head.count)
    reader = csv.reader(chain([head], lines), strict=True, delimiter=separator)
    number = 1
    try:
        for cells in reader:
            if cells:  # a blank line has none
                yield number, cells
            number = reader.line_num + 1
    except csv.Error as error:
        raise DataError(path, number, f"invalid CSV ({error}); are all quotes closed?") from error


def _parquet_rows(path: str | Path) -> Iterator[Row]:
    need_extra("parquet")
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            batches = (batch.to_pylist() for batch in file.iter_batches(1024))
            for number, cells in enumerate(chain.from_iterable(batches), 1):
                yield f"row {number}", cells
    except (OSError, ValueError, OverflowError, pyarrow.ArrowException) as error:
        raise TextError(f"{path}: cannot be read ({error}); is it a Parquet file?") from error
