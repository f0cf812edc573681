"""Files of plain text -> documents: lists of lines, whatever the files' compression.

A blank line ends a document; so does a very long run of lines without one, so that a file that
never has one can still be streamed.
"""

from __future__ import annotations

import glob
import gzip
import lzma
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, cast

from relmo.errors import TextError, need_extra
from relmo.text.lines import Errors, read_lines

MAX_LINES = 10_000
"""Lines after which a document ends without a blank line."""


def find_files(patterns: Sequence[str | Path]) -> list[Path]:
    """Files that paths, folders (all files below) and globs name, each once, sorted."""
    found: set[Path] = set()
    for pattern in patterns:
        path = Path(pattern)
        if path.is_dir():
            here = [each for each in path.rglob("*") if each.is_file()]
        elif path.is_file():
            here = [path]
        else:
            here = [Path(each) for each in glob.glob(str(pattern), recursive=True)]  # noqa: PTH207
        if not here:
            raise TextError(f"{pattern}: no file is there; give files, folders or globs of text")
        found.update(each for each in here if each.is_file())
    return sorted(found)


def open_text(path: Path) -> IO[bytes]:
    """The file's bytes, decompressed as its suffix says: .gz, .xz, .zst or none."""
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if suffix == ".xz":
        return cast("IO[bytes]", lzma.open(path, "rb"))
    if suffix == ".zst":
        need_extra("zstd")
        import zstandard

        return cast("IO[bytes]", zstandard.open(path, "rb"))
    return path.open("rb")


def read_documents(path: Path, errors: Errors = "strict") -> Iterator[list[str]]:
    """Documents of one file, each a list of lines that are not blank."""
    try:
        with open_text(path) as file:
            yield from split_documents(read_lines(file, str(path), errors))
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise TextError(f"{path}: cannot be read ({error}); is the file complete?") from error


def split_documents(lines: Iterable[str]) -> Iterator[list[str]]:
    """Documents of a stream of lines."""
    document: list[str] = []
    for line in lines:
        if line.strip():
            document.append(line)
        if document and (not line.strip() or len(document) >= MAX_LINES):
            yield document
            document = []
    if document:
        yield document
