"""Lines of labelled files: unpacked as the suffix says, counted, bytes that are no text named."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from relmo.errors import DataError, TextError
from relmo.text.documents import open_text, read_lines

WHITE = " \t"
"""All that is white space within a line: a no-break space is part of its word."""


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Lines of a labelled file, counted from 1; the file is decompressed as its suffix says.

    Raises:
        DataError: a line is not UTF-8.
        TextError: the file cannot be opened or unpacked.
    """
    try:
        with open_text(Path(path)) as file:
            yield from decoded_lines(file, str(path))
    except FileNotFoundError as error:
        raise TextError(f"{path}: cannot be read: no such file; is its name right?") from error
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise TextError(f"{path}: cannot be read ({error}); is the file complete?") from error


def decoded_lines(file: Iterable[bytes], name: str) -> Iterator[tuple[int, str]]:
    """Lines of an open file, counted from 1; DataError for one that is not UTF-8."""
    number = 0
    try:
        for number, line in enumerate(read_lines(file, name), start=1):
            yield number, line
    except TextError as error:
        reason = f"not UTF-8 ({error.__cause__}); convert the file"
        raise DataError(name, number + 1, reason) from error


def whole_text(path: str | Path) -> str:
    """All lines of a file that is read as one, such as JSON; raises what `numbered_lines` does."""
    return "\n".join(line for _, line in numbered_lines(path))
