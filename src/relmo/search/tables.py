"""CSV, TSV, XLSX and JSONL -> documents, one per row, with chosen columns as text.

The column `text` is the text unless others are chosen; several are joined by newlines. The other
columns are metadata, to filter on. A row is named by its id column, or by its number.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relmo.errors import ConfigError, TextError, need_extra
from relmo.search.documents import BadRow, Document, Value

TABLES = (".csv", ".tsv", ".xlsx", ".jsonl")
csv.field_size_limit(2**24)
Row = tuple[int, Mapping[str, Any] | str]
"""Its line, and its cells by column; or what is wrong with it."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of a table mean what."""

    text: tuple[str, ...] = ("text",)
    id: str | None = None
    meta: tuple[str, ...] | None = None
    """Columns to keep for filters; None keeps all that are not text."""


def read_table(path: Path, source: str, columns: Columns) -> Iterator[Document | BadRow]:
    """The rows of one file."""
    seen: set[str] = set()
    has_header = path.suffix.lower() != ".jsonl"
    for number, (line, cells) in enumerate(_rows(path), start=1):
        if has_header and not isinstance(cells, str) and (lack := _lack(cells, columns)):
            yield BadRow(source, 1, lack)
            return  # no row has it
        made = cells if isinstance(cells, str) else _document(source, number, line, cells, columns)
        if isinstance(made, Document) and made.key in seen:
            made = f"a row before it has the {columns.id} {made.key.removeprefix(source + '#')!r}"
        if isinstance(made, str):
            yield BadRow(source, line, made)
            continue
        if columns.id is not None:
            seen.add(made.key)
        yield made


def _document(
    source: str, number: int, line: int, cells: Mapping[str, Any], columns: Columns
) -> Document | str:
    """A row's document, or what is wrong with it."""
    if lack := _lack(cells, columns):
        return lack
    texts = [cells[name] for name in columns.text]
    for name, text in zip(columns.text, texts, strict=True):
        if isinstance(text, dict | list):
            return f"{name!r} holds {type(text).__name__}; text is wanted"
    text = "\n".join(str(text) for text in texts if text is not None)
    named = number if columns.id is None else cells[columns.id]
    if named is None or named == "":
        return f"its {columns.id!r} is empty"
    kept = columns.meta
    meta: dict[str, Value] = {
        name: value if isinstance(value, int | float | None) else str(value)
        for name, value in cells.items()
        if not isinstance(value, dict | list)
        and (name not in columns.text if kept is None else name in kept)
    }
    try:
        return Document(f"{source}#{named}", source, text, line, is_row=True, meta=meta)
    except TextError:
        return "not UTF-8, or NUL or no number (NaN) in a column; clean it"


def _lack(cells: Mapping[str, Any], columns: Columns) -> str | None:
    """What is said where a chosen column is not there."""
    for name in (*columns.text, *([columns.id] if columns.id else [])):
        if name not in cells:
            return f"no column {name!r}; it has {', '.join(cells) or 'none'}; choose of these"
    return None


def _rows(path: Path) -> Iterator[Row]:
    suffix = path.suffix.lower()
    if suffix == ".jsonl":
        return _jsonl_rows(path)
    if suffix == ".xlsx":
        return _xlsx_rows(path)
    return _csv_rows(path)


def _csv_rows(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        delimiter = "\t" if path.suffix.lower() == ".tsv" else _delimiter(file.readline(2**16))
        file.seek(0)
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        header: list[str] | None = None
        line = 1
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield line, f"not {path.suffix[1:].upper()} ({error})"
                line = reader.line_num + 1
                continue
            if header is None:
                header = cells
            elif cells and len(cells) != len(header):
                yield line, f"{len(cells)} cells; the first line names {len(header)} columns"
            elif cells:
                yield line, {name: _number(cell) for name, cell in zip(header, cells, strict=True)}
            line = reader.line_num + 1


def _delimiter(header: str) -> str:
    """Spreadsheets write `;` where the comma is the decimal point's."""
    return ";" if header.count(";") > header.count(",") else ","


def _number(cell: str) -> str | int | float:
    """Plain numbers as numbers, so that filters can compare them; all else stays text."""
    if len(cell) > 15 or not cell.lstrip("-")[:1].isdigit() or cell.lstrip("-")[:2] == "00":
        return cell
    for kind in (int, float):
        try:
            value = kind(cell)
        except ValueError:
            continue
        return value if str(value) == cell else cell
    return cell


def _xlsx_rows(path: Path) -> Iterator[Row]:
    need_extra("search")
    from openpyxl import load_workbook

    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # a broken zip, or XML of many kinds
        yield 1, f"not XLSX ({error})"
        return
    try:
        rows = book.worksheets[0].iter_rows(values_only=True)
        header = [str(name) if name is not None else "" for name in next(rows, ())]
        for line, cells in enumerate(rows, start=2):
            if any(cell is not None for cell in cells):
                named = dict(zip(header, cells, strict=False))
                yield line, {name: _plain(cell) for name, cell in named.items() if name}
    finally:
        book.close()


def _plain(cell: Any) -> Value:  # noqa: ANN401 - openpyxl gives what a cell holds
    return cell if isinstance(cell, str | int | float | None) else str(cell)


def _jsonl_rows(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        for line, raw in enumerate(file, start=1):
            if not raw.strip():
                continue
            try:
                cells = json.loads(raw.decode("utf-8-sig"))
            except UnicodeDecodeError:
                yield line, "not UTF-8; convert the file"
            except ValueError as error:
                yield line, f"not JSON ({error})"
            except RecursionError:
                yield line, "JSON too deep to read"
            else:
                yield line, cells if isinstance(cells, dict) else "not a JSON object"


def check_columns(columns: Columns) -> None:
    """Raise ConfigError for a choice that cannot be."""
    if not columns.text:
        raise ConfigError("no text column is chosen; give at least one")
