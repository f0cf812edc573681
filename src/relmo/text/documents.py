"""Files of plain text -> documents: lists of lines, whatever the files' compression.

A blank line ends a document; so does a very long run of text without one, so that a file that
never has one can still be streamed.
"""

from __future__ import annotations

import glob
import gzip
import io
import lzma
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

from relmo.errors import TextError, need_extra
from relmo.text.lines import Errors, read_lines

MAX_LINES = 10_000
"""Lines after which a document ends without a blank line."""
MAX_CHARACTERS = 10_000_000
"""Characters after which it does: a line may be a whole book."""
PIECE = 1 << 16
"""Compressed bytes read at a time."""


def find_files(patterns: Sequence[str | Path]) -> list[Path]:
    """Files that paths, folders (all files below) and globs name, each once, sorted.

    A hidden file counts only where it is named itself, not as one of a folder's.
    """
    found: dict[Path, Path] = {}
    for pattern in patterns:
        if not (files := _files_of(pattern)):
            raise TextError(f"{pattern}: no file is there; give files, folders or globs of text")
        for path in files:
            found.setdefault(path.resolve(), path)
    return sorted(found.values())


def open_text(path: Path) -> IO[bytes]:
    """The file's bytes, decompressed as its suffix says: .gz, .xz, .zst or none."""
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if suffix == ".xz":
        return cast("IO[bytes]", lzma.open(path, "rb"))
    if suffix == ".zst":
        need_extra("zstd")
        return io.BufferedReader(_ZstdFile(path.open("rb")))
    return path.open("rb")


def read_documents(path: Path, errors: Errors = "strict") -> Iterator[list[str]]:
    """Documents of one file, each a list of lines that are not blank."""
    try:
        with open_text(path) as file:
            yield from split_documents(read_lines(file, str(path), errors))
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise TextError(f"{path}: cannot be read ({error}); is the file complete?") from error


def split_documents(lines: Iterable[str]) -> Iterator[list[str]]:
    """Documents of a stream of lines."""
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


def _files_of(pattern: str | Path) -> list[Path]:
    """Files that one path, folder or glob names; a folder stands for all files below."""
    if Path(pattern).exists():
        paths = [Path(pattern)]
    else:
        paths = [Path(each) for each in glob.glob(str(pattern), recursive=True)]  # noqa: PTH207
    files = [path for path in paths if path.is_file()]
    for folder in paths:
        below = folder.rglob("*") if folder.is_dir() else ()
        files += [path for path in below if path.is_file() and not _is_hidden(path, folder)]
    return files


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


class _ZstdFile(io.RawIOBase):
    """The bytes of all frames of a .zst file; zstandard's own reader has no lines.

    Nor does that one notice where a file ends within a frame: this one raises EOFError.
    """

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed = packed
        self._pieces = _unpack_zstd(packed)
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        while not self._ready:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._ready = memoryview(piece)
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def close(self) -> None:
        self._packed.close()
        super().close()


def _unpack_zstd(file: IO[bytes]) -> Iterator[bytes]:
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)  # as `zstd --long=31`
    frame, is_complete = decompressor.decompressobj(), True
    try:
        while packed := file.read(PIECE):
            while packed:
                yield frame.decompress(packed)
                packed, is_complete = frame.unused_data, frame.eof
                if is_complete:
                    frame = decompressor.decompressobj()
    except zstandard.ZstdError as error:
        raise OSError(str(error)) from error
    if not is_complete:
        raise EOFError("it ends within a frame")
