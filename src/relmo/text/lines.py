"""Bytes -> lines of text. Only a newline ends a line; what is not UTF-8 is named by its line.

A byte order mark at the start and the carriage return of a CRLF ending are dropped; nothing else
is: NUL, control characters and Unicode's other line separators stay inside their line.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from relmo.errors import TextError

Errors = Literal["strict", "replace"]


def read_lines(file: Iterable[bytes], name: str, errors: Errors = "strict") -> Iterator[str]:
    """Decode a stream of raw lines; `name` stands for it in messages."""
    for number, raw in enumerate(file, start=1):
        if number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield line.decode("utf-8", errors)
        except UnicodeDecodeError as error:
            raise TextError(
                f"{name}: line {number} is not UTF-8 (byte 0x{line[error.start]:02x} at byte "
                f"{error.start + 1} of the line); convert the file to UTF-8{_guess(line, number)}; "
                f"relmo embed can read U+FFFD there with --errors replace"
            ) from error


def read_files(files: Iterable[Path | BinaryIO], errors: Errors = "strict") -> Iterator[str]:
    """Lines of several files or open streams, one after the other."""
    for file in files:
        if isinstance(file, Path):
            try:
                with file.open("rb") as stream:
                    yield from read_lines(stream, str(file), errors)
            except OSError as error:
                raise TextError(f"{file}: cannot be read ({error.strerror})") from error
        else:
            yield from read_lines(file, getattr(file, "name", "input"), errors)


def _guess(line: bytes, number: int) -> str:
    if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return " (it looks like UTF-16)"
    return ""
