"""The unfinished run: every record made so far, on disk, safe against a crash at any moment.

Records are appended in line order and nothing is ever changed in place, so a crash can only tear
the end. Opening a journal again checks every entry and cuts it where the first damage stands; what
is left is as if the run had stopped there. The bytes are laid out in `entries.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import TYPE_CHECKING

from relmo.errors import OutputError
from relmo.files import explain, sync_folder
from relmo.vectors import entries
from relmo.vectors.lock import open_locked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from io import BufferedReader
    from pathlib import Path

    from relmo.vectors.record import Record

SYNC_BYTES = 64 * 2**20
SYNC_SECONDS = 5.0
"""What a power cut can cost: the records appended within either bound. A killed process loses
nothing that was appended."""


class Journal:
    """Records on their way, held by one process at a time.

    Args:
        path: The journal's file.
        run: What the run is, as JSON can hold it. A journal of another run is not resumed.
        resume: Keep the records of an earlier run; without it, finding some is an error.
    """

    num_records = 0
    next_line = 0
    """The line after the last record: the first that is not done."""

    def __init__(self, path: Path, run: Mapping[str, object], *, resume: bool) -> None:
        self.path = path
        self._unsynced, self._synced_at = 0, time.monotonic()
        self._heads: Iterator[entries.Head] = iter(())
        with explain(path, "choose a folder that exists and can be written to"):
            self._file = open_locked(path)
        try:
            with explain(path, "free space and run again"):
                self._start(run, resume)
        except BaseException:
            self._file.close()
            raise
        self._unchecked = next(self._heads, None)

    def is_done(self, line: int, text: str) -> bool:
        """Whether the run has passed this line. Ask line by line, in order.

        Raises:
            OutputError: The line's vectors were made from another text, or a line was left out
                that has vectors: the input has changed.
        """
        head = self._unchecked
        if head is None or head.line > line:  # new, or passed over by the earlier run
            return line < self.next_line
        if head.line < line or head.text_crc != entries.text_checksum(text):
            raise OutputError(
                f"{self.path}: the input has changed: line {head.line} (counted from 0) is not "
                "what its vectors were made from; resume with the same input, or delete it to "
                "start again"
            )
        self._unchecked = next(self._heads, None)
        return True

    def append(self, record: Record) -> None:
        """Add a record. Once this returns, the death of the process does not lose it."""
        if record.line < self.next_line:
            raise OutputError(
                f"line {record.line} came after line {self.next_line - 1}; append in line order"
            )
        with explain(self.path, f"free space, then resume: {self.num_records} lines are safe"):
            self._write(*entries.pack(record))
            self.num_records += 1
            self.next_line = record.line + 1
            self._sync_if_due()

    def all_checked(self) -> None:
        """Raise OutputError unless `is_done` was asked about every line of the earlier run."""
        if self._unchecked is not None:
            raise OutputError(
                f"{self.path}: the input has changed: it ended before line "
                f"{self._unchecked.line} (counted from 0), which has vectors; resume with the "
                "same input, or delete it to start again"
            )

    def records(self) -> Iterator[Record]:
        """Every record, one at a time, each checked against its checksum."""
        with self.path.open("rb") as file:
            entries.read_opening(file)
            for done in range(self.num_records):
                head = entries.read_head(file)
                record = None if head is None else entries.read_record(file, head)
                if record is None:
                    raise OutputError(
                        f"{self.path}: record {done} was damaged on the disk; resume: it and "
                        "those after it are made again"
                    )
                yield record

    def sync(self) -> None:
        """Wait until every record is on the disk."""
        os.fsync(self._file.fileno())
        self._unsynced, self._synced_at = 0, time.monotonic()

    def remove(self) -> None:
        """Delete the journal: its records are elsewhere now, or there are none."""
        if sys.platform == "win32":
            self._file.close()  # an open file cannot be deleted there; here the lock must hold
        self.path.unlink(missing_ok=True)
        self._file.close()

    def close(self) -> None:
        """Let go of the journal. With records it stays to be resumed; empty, it is deleted."""
        if self._file.closed:
            return
        if self.num_records == 0:
            self.remove()
            return
        with explain(self.path, "the last lines may be lost; resume makes them again"):
            try:
                self.sync()
            finally:
                self._file.close()

    def _start(self, run: Mapping[str, object], resume: bool) -> None:
        with self.path.open("rb") as file:
            try:
                found = entries.read_opening(file)
            except ValueError as error:
                raise OutputError(
                    f"{self.path}: this file is in the way and is not a journal of this version "
                    "of relmo; move it, or choose another output"
                ) from error
            if found is not None and resume:
                self._take_up(file, found, run)
                return
            if found is not None and (
                done := sum(1 for _ in entries.read_heads(file, check=False))
            ):
                raise OutputError(
                    f"{self.path} holds {done} lines of an interrupted run; go on with it "
                    "(resume), or delete it to start again"
                )
        self._file.truncate(0)
        self._write(entries.pack_opening(run))
        self.sync()
        sync_folder(self.path.parent)

    def _take_up(
        self, file: BufferedReader, found: dict[str, object], run: Mapping[str, object]
    ) -> None:
        """Keep the whole records of an earlier run, cut what a crash tore."""
        _compare(self.path, found, json.loads(json.dumps(run)))
        first = end = file.tell()
        for head in entries.read_heads(file, check=True):
            end = file.tell()
            self.num_records += 1
            self.next_line = head.line + 1
        self._file.truncate(end)
        self._heads = self._read_heads(first)

    def _read_heads(self, first: int) -> Iterator[entries.Head]:
        with self.path.open("rb") as file:
            file.seek(first)
            yield from entries.read_heads(file, check=False)

    def _write(self, *pieces: bytes | memoryview) -> None:
        """Write all pieces or, as far as the file system lets us, nothing."""
        end = os.fstat(self._file.fileno()).st_size
        try:
            for piece in pieces:
                left = memoryview(piece)
                while left.nbytes:
                    left = left[self._file.write(left) :]
        except BaseException:
            with contextlib.suppress(OSError):
                self._file.truncate(end)
            raise
        self._unsynced += sum(memoryview(piece).nbytes for piece in pieces)

    def _sync_if_due(self) -> None:
        if self._unsynced >= SYNC_BYTES or time.monotonic() - self._synced_at >= SYNC_SECONDS:
            self.sync()


def _compare(path: Path, found: Mapping[str, object], wanted: Mapping[str, object]) -> None:
    """Raise OutputError naming every field in which two runs differ."""
    differing = [
        f"{name} was {found.get(name)!r}, now {wanted.get(name)!r}"
        for name in sorted(found.keys() | wanted.keys())
        if found.get(name) != wanted.get(name)
    ]
    if differing:
        raise OutputError(
            f"{path} is from a run with other settings: {'; '.join(differing)}; "
            "resume with the settings it had, or delete it to start again"
        )
