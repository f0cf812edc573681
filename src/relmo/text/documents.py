"""Text files -> lines -> documents, decompressed by suffix, decoded as UTF-8.

Only a newline ends a line. A byte order mark at the start of a file and the carriage return of a
CRLF ending are dropped; NUL, control characters and Unicode's other line separators stay in their
line. A blank line ends a document, and so does a very long run of text without one, so that a file
without blank lines can still be streamed.
"""

from __future__ import annotations

import codecs
import glob
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal

from relmo.errors import TextError, need_extra

Errors = Literal["strict", "replace"]
MAX_LINES = 10_000
"""Lines after which a document ends even without a blank line."""
MAX_CHARACTERS = 10_000_000
"""Characters after which a document ends: a single line may be a whole book."""
MAX_LINE_BYTES = 1 << 28
"""Bytes of a line; a longer one is an error. Whole corpora exist that are one line of 100 MB."""
CHUNK = 1 << 12
"""Compressed bytes read at a time, which unpack to 128 MB at most."""
OR_REPLACE = "; or read U+FFFD instead: --errors replace"


def find_files(patterns: Sequence[str | Path]) -> list[Path]:
    """Resolve paths, folders (all files below) and globs to files, sorted, without duplicates.

    A hidden file is included only if it is named itself, not as part of a folder.
    """
    found: dict[Path, Path] = {}
    for pattern in patterns:
        if not (files := _files_of(pattern)):
            raise TextError(f"{pattern}: no files found; expected text files, folders or globs")
        for path in files:
            found.setdefault(path.resolve(), path)
    return sorted(found.values())


def read_documents(path: Path, errors: Errors = "strict") -> Iterator[list[str]]:
    """The documents of a file, each a list of lines that are not blank."""
    return (document for _, document in read_numbered(path, errors))


def read_numbered(path: Path, errors: Errors = "strict") -> Iterator[tuple[int, list[str]]]:
    """The documents of a file, each after the number of its first line, from 1."""
    try:
        with open_text(path) as file:
            yield from number_documents(read_lines(file, str(path), errors))
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise TextError(f"{path}: cannot be read ({error}); is the file complete?") from error


def number_documents(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """The documents of a stream of lines, each after the number of its first line, from 1."""
    last = 0  # line that is not blank

    def counted() -> Iterator[str]:
        nonlocal last
        for number, line in enumerate(lines, 1):
            last = number if line.strip() else last
            yield line

    for document in split_documents(counted()):
        yield last - len(document) + 1, document


def split_documents(lines: Iterable[str]) -> Iterator[list[str]]:
    """Split a stream of lines into documents."""
    document: list[str] = []
    size = 0
    for line in lines:
        is_blank = not line.strip()
        if not is_blank:
            document.append(line)
            size += len(line)
        is_over = is_blank or len(document) >= MAX_LINES or size >= MAX_CHARACTERS
        if document and is_over:
            yield document
            document, size = [], 0
    if document:
        yield document


def read_files(files: Iterable[Path | BinaryIO], errors: Errors = "strict") -> Iterator[str]:
    """The lines of several plain files or open streams, one after the other."""
    for file in files:
        if isinstance(file, Path):
            try:
                with file.open("rb") as stream:
                    yield from read_lines(stream, str(file), errors, OR_REPLACE)
            except OSError as error:
                raise TextError(f"{file}: cannot be read ({error.strerror})") from error
        else:
            yield from read_lines(file, getattr(file, "name", "input"), errors, OR_REPLACE)


def read_lines(
    file: Iterable[bytes], name: str, errors: Errors = "strict", advice: str = ""
) -> Iterator[str]:
    """Decode a stream of raw lines; error messages call it `name` and end with the advice."""
    readline = getattr(file, "readline", None)
    bounded = file if readline is None else iter(partial(readline, MAX_LINE_BYTES + 1), b"")
    for number, raw in enumerate(bounded, start=1):
        if len(raw) > MAX_LINE_BYTES:
            raise TextError(
                f"{name}: line {number} has more than {MAX_LINE_BYTES:,} bytes; split it into lines"
            )
        if number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield line.decode("utf-8", errors)
        except UnicodeDecodeError as error:
            is_utf16 = number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            guess = " (it looks like UTF-16)" if is_utf16 else ""
            encoding = "UTF-16" if is_utf16 else "LATIN1"
            raise TextError(
                f"{name}: line {number} is not UTF-8 (byte 0x{line[error.start]:02x} at byte "
                f"{error.start + 1} of the line); convert the file to UTF-8{guess}, for example: "
                f"iconv -f {encoding} -t UTF-8 FILE > NEW{advice}"
            ) from error


@contextmanager
def open_text(path: Path) -> Iterator[Iterable[bytes]]:
    """Open a file as raw lines, decompressed if its suffix is .gz, .xz or .zst."""
    suffix = path.suffix.lower()
    if suffix == ".zst":
        need_extra("zstd")
    openers: dict[str, Callable[[Path, str], Any]] = {".gz": gzip.open, ".xz": lzma.open}
    with openers.get(suffix, open)(path, "rb") as file:
        yield _zstd_lines(file) if suffix == ".zst" else file


def _files_of(pattern: str | Path) -> list[Path]:
    """The files that one path, folder or glob names; a folder means all files below it."""
    is_path = Path(pattern).exists()
    names = [pattern] if is_path else glob.glob(str(pattern), recursive=True)  # noqa: PTH207
    files: list[Path] = []
    for path in map(Path, names):
        below = path.rglob("*") if path.is_dir() else ()
        visible = [p for p in below if "/." not in f"/{p.relative_to(path).as_posix()}"]
        files += [p for p in (path, *visible) if p.is_file()]
    return files


def _zstd_lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of all frames of a .zst file, each with its newline."""
    line: list[bytes] = []
    size = 0
    for chunk in _decompress_zstd(file):
        start, *others = chunk.split(b"\n")
        line.append(start)
        size += len(start)
        for other in others:
            yield b"".join([*line, b"\n"])
            line, size = [other], len(other)
        if size > MAX_LINE_BYTES:
            yield b"".join(line)  # too long, which ends the reading
            line, size = [], 0
    if last := b"".join(line):
        yield last


def _decompress_zstd(file: IO[bytes]) -> Iterator[bytes]:
    # Not zstandard's own reader, which does not notice a file that ends inside a frame.
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)  # as `zstd --long=31`
    frame, is_complete = decompressor.decompressobj(), True
    try:
        while data := file.read(CHUNK):
            while data:
                yield frame.decompress(data)
                data, is_complete = frame.unused_data, frame.eof
                if is_complete:
                    frame = decompressor.decompressobj()
    except zstandard.ZstdError as error:
        raise OSError(str(error)) from error
    if not is_complete:
        raise EOFError("the file ends inside a frame")
