"""Paths -> documents. Text files are one document each; tables are one per row (`tables.py`).

    .txt .md .markdown      the file
    .csv .tsv .xlsx .jsonl  its rows; columns are chosen with `Columns`

What cannot be read is handed on as a `BadRow` with its file and line, in the place of a document.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from relmo.errors import ConfigError
from relmo.search.documents import BadRow, Document
from relmo.search.tables import TABLES, Columns, read_table

TEXTS = (".txt", ".md", ".markdown")
SUFFIXES = (*TEXTS, *TABLES)


def find_sources(paths: Iterable[str | Path]) -> list[str]:
    """The files that paths stand for, each once; folders are searched, hidden files left out.

    A file is named as its path was given, so that the same call finds the same names again.
    """
    found: dict[str, None] = {}
    for path in paths:
        for each in _walk(Path(os.path.normpath(path))):
            found[each.as_posix()] = None
    return list(found)


def is_under(source: str, paths: Iterable[str | Path]) -> bool:
    """Whether a source is one of the paths or lies in one of them."""
    here = Path(source)
    return any(here.is_relative_to(os.path.normpath(path)) for path in paths)


def read_source(source: str, columns: Columns) -> Iterator[Document | BadRow]:
    """The documents of one file, and what in it is no document."""
    path = Path(source)
    try:
        if path.suffix.lower() in TABLES:
            yield from read_table(path, source, columns)
        else:
            yield _read_text(path, source)
    except OSError as error:
        yield BadRow(source, 1, f"cannot be read ({error.strerror or error})")


def _walk(path: Path) -> Iterator[Path]:
    if path.is_file():
        if path.suffix.lower() not in SUFFIXES:
            raise ConfigError(
                f"{path}: no reader for {path.suffix or 'a file without suffix'!r}; "
                f"there are {', '.join(SUFFIXES)}"
            )
        yield path
    elif path.is_dir():
        for each in sorted(path.rglob("*")):
            hidden = any(part.startswith(".") for part in each.relative_to(path).parts)
            if not hidden and each.suffix.lower() in SUFFIXES and each.is_file():
                yield each
    else:
        raise ConfigError(f"{path}: no such file or folder")


def _read_text(path: Path, source: str) -> Document | BadRow:
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return BadRow(source, line, f"not UTF-8 (byte 0x{raw[error.start]:02x}); convert the file")
    meta = {"path": source, "suffix": path.suffix.lower()}
    return Document(key=source, source=source, text=text, meta=meta)
