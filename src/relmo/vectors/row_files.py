"""Rows of named values -> TSV, CSV, JSON lines or Parquet, streamed, the whole file or none.

A missing number (NaN) is an empty cell, in JSON null.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from relmo.errors import ConfigError, TextError, need_extra
from relmo.files import replacing
from relmo.vectors.writer import check_place

Row = tuple[Any, ...]
ROWS = 10_000
"""Rows of a Parquet file written at a time."""
TEXT_FORMATS = {".tsv": "\t", ".csv": ",", ".jsonl": None}
"""Suffix -> what separates the cells of a line; None: each line is a JSON object."""


def check_rows_output(path: Path) -> None:
    """Raise, before any work, if a file of rows cannot be written there."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        need_extra("parquet")
    elif suffix not in TEXT_FORMATS:
        known = ", ".join((*TEXT_FORMATS, ".parquet"))
        raise ConfigError(f"{path}: unknown suffix {suffix!r}; the output must end in {known}")
    check_place(path)


def write_rows(path: Path, fields: Sequence[str], rows: Iterable[Row]) -> None:
    """Write a file whose format its suffix names; an error leaves what was there before."""
    with replacing(path, follow=True) as temporary:
        if path.suffix.lower() == ".parquet":
            _write_parquet(temporary, fields, rows)
            return
        with temporary.open("w", encoding="utf-8", errors="surrogatepass", newline="") as file:
            print_rows(file, fields, rows, TEXT_FORMATS[path.suffix.lower()])


def print_rows(
    file: TextIO, fields: Sequence[str], rows: Iterable[Row], separator: str | None = "\t"
) -> None:
    """Print lines of cells after a line of names, or JSON objects if there is no separator.

    Nothing is printed before there is a first row, or none: making it may fail.
    """
    rest = iter(rows)
    first = [*islice(rest, 1)]
    write: Callable[[Row], Any]
    if separator is None:
        write = lambda row: file.write(_as_json(fields, row))  # noqa: E731
    else:
        table = csv.writer(file, delimiter=separator, lineterminator="\n")
        table.writerow(fields)
        write = lambda row: table.writerow(map(_cell, row))  # noqa: E731
    for row in chain(first, rest):
        write(row)


def _cell(value: object) -> object:
    """Six digits after the point are more than a model knows."""
    if isinstance(value, float):
        return "" if value != value else f"{value:.6f}"
    return value


def _as_json(fields: Sequence[str], row: Row) -> str:
    values = (None if isinstance(v, float) and v != v else v for v in row)
    return json.dumps(dict(zip(fields, values, strict=True)), default=str) + "\n"


def _write_parquet(path: Path, fields: Sequence[str], rows: Iterable[Row]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for part in _parts(rows):
        columns = dict(zip(fields, map(list, zip(*part, strict=True)), strict=True))
        try:
            table = pa.table(columns, None if writer is None else writer.schema)
        except pa.ArrowException as error:
            what = "Parquet takes values of one type per column"
            raise TextError(f"{what} ({error}); write .jsonl, .csv or .tsv") from error
        if writer is None:
            writer = pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is None:
        pq.write_table(pa.table({name: [] for name in fields}), path)
    else:
        writer.close()


def _parts(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """A list is one part: a later row may be what tells the type of a column."""
    size = len(rows) if isinstance(rows, list) else ROWS
    rest = iter(rows)
    while part := list(islice(rest, size)):
        yield part
