"""The file of an SQLite index: its checksum, and the lock of the process that writes it.

SQLite does not notice a changed bit in its data. The CRC-32 of the whole file is kept in the header
field `user_version`: written when an index that has changed is closed, cleared in the transaction
of the next change, and compared on opening. 0 means that there is none, as after an interrupted
run. While a reader's transaction lasts, no checkpoint changes what the checksum covers.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections import defaultdict
from io import FileIO
from pathlib import Path
from typing import ClassVar

from relmo.errors import OutputError
from relmo.files import InUse, explain, lock_holder, release_lock, take_lock
from relmo.search.store import busy, this_process

HEADER = 100
"""Bytes of SQLite's file header."""
NOT_SUMMED = ((24, 28), (60, 64), (92, 100))
"""Bytes of the header that change when the checksum is written: two change counters, user_version
and the version of the library."""
MARK_AT = 68
"""Where the header has the application's mark, 4 bytes."""
JOURNAL_MARK = bytes.fromhex("d9d505f920a163d7")
"""The start of SQLite's rollback journal, and the end of one that names a further file."""
CHUNK = 1 << 18
"""Bytes read at a time: few enough for a processor's cache."""


def check_journal(path: Path, *, is_writer: bool) -> None:
    """Raise OutputError if SQLite must not open the database because of a journal beside it.

    SQLite completes an interrupted write when it opens a file, and deletes the further file that
    the journal may name: any file. Our transactions, of one database, never name one. A reader
    leaves every journal alone.
    """
    journal = path.with_name(f"{path.name}-journal")
    if not journal.is_file() or not journal.stat().st_size:
        return
    with journal.open("rb") as file:
        file.seek(-min(len(JOURNAL_MARK), journal.stat().st_size), os.SEEK_END)
        names_file = file.read() == JOURNAL_MARK
    if names_file:
        raise OutputError(
            f"{path}: {journal.name} beside it was not written by relmo, and SQLite would delete "
            f"another file because of it; delete {journal.name} if you do not trust its origin"
        )
    if not is_writer:
        raise OutputError(
            f"{path}: a write was interrupted, which left {journal.name}; run relmo index again"
        )


class RawFile:
    """The bytes of a database file, read beside SQLite.

    POSIX drops all locks of a process on a file when it closes any descriptor of that file, the
    locks of SQLite too. So descriptors are closed only once no store has the file open.
    """

    _guard = threading.Lock()
    _open: ClassVar[defaultdict[tuple[int, int], int]] = defaultdict(int)
    _waiting: ClassVar[defaultdict[tuple[int, int], list[FileIO]]] = defaultdict(list)

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        status = os.fstat(self._file.fileno())
        self._identity = (status.st_dev, status.st_ino)
        with self._guard:
            self._open[self._identity] += 1

    def close(self) -> None:
        """Close the file as soon as it is safe. Call this after SQLite's connection is closed."""
        with self._guard:
            self._open[self._identity] -= 1
            self._waiting[self._identity].append(self._file)
            if self._open[self._identity] == 0:
                for file in self._waiting.pop(self._identity):
                    file.close()
                del self._open[self._identity]

    def mark(self) -> int:
        """The application's mark in the header; 0 in an empty file."""
        self._file.seek(MARK_AT)
        return int.from_bytes(self._file.read(4), "big")

    def checksum(self) -> int:
        """The checksum of the file as a signed 32-bit number, never 0."""
        self._file.seek(0)
        header = bytearray(self._file.read(HEADER))
        for start, end in NOT_SUMMED:
            header[start:end] = bytes(end - start)
        total = zlib.crc32(header)
        chunk = memoryview(bytearray(CHUNK))
        while size := self._file.readinto(chunk):
            total = zlib.crc32(chunk[:size], total)
        return int.from_bytes(total.to_bytes(4, "big"), "big", signed=True) or 1


class WriterLock:
    """Held by the one process that may create an index or bring it up to date; a file beside it."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f"{path.name}.lock")
        self._file: FileIO | None = None

    def acquire(self) -> None:
        """Take the lock; OutputError names the process that holds it."""
        if self._file is not None:
            return
        with explain(self._path, "does the folder exist, and is it writable?"):
            try:
                self._file = take_lock(self._path, this_process())
            except InUse as error:
                holder = lock_holder(self._path) or "another process"
                raise OutputError(busy(str(self._path).removesuffix(".lock"), holder)) from error

    def release(self) -> None:
        """Give the lock up; without one nothing happens."""
        if self._file is not None:
            release_lock(self._file, self._path)
            self._file = None
