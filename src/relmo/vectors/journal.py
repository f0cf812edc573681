r"""The journal of an unfinished run: every record so far, on disk, safe against a crash.

Records are appended in line order and nothing is changed in place, so a crash can only damage the
end. Opening a journal again checks every entry and truncates it at the first damaged one; the rest
is as if the run had stopped there. The file:

    header    b"RELMOJ1\n", length and CRC32 of a JSON object, the object: what the run is
    entry     head, the record's text, tokens, shape and dtype as JSON, the vectors' raw bytes
    head      b"LINE", line, CRC32 of the text, lengths of the JSON and of the vectors,
              CRC32 of these two together, CRC32 of the head so far

All numbers are little-endian. A head has a checksum of its own so that its lengths can be trusted:
a reader may skip the vectors, and never reads far because of a damaged number.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from relmo.errors import OutputError
from relmo.files import explain, open_locked, sync_folder
from relmo.vectors.formats import Record

SYNC_BYTES = 64 * 2**20
SYNC_SECONDS = 5.0
"""A power cut costs at most the records appended within either limit. A killed process loses
nothing that was appended."""

UNSAID = {"dtype": "float32"}
"""What a run was that does not say it: before vectors could be float16."""

MAGIC = b"RELMOJ1\n"
MAX_HEADER = 2**20
"""More bytes than a header has: it says what the run is."""
_HEADER = struct.Struct("<8sII")
_HEAD = struct.Struct("<4sQIIQI")
_CRC = struct.Struct("<I")


class Journal:
    """The records of a run, open in one process at a time.

    Args:
        path: The journal's file.
        run: What the run is, as JSON. A journal of another run is not resumed.
        resume: Keep the records of an earlier run; without it, finding some is an error.
        check: Raises OutputError for a record that the run cannot have made.
    """

    num_records = 0
    next_line = 0
    """The line after the last record: the first line that is not done."""

    def __init__(
        self,
        path: Path,
        run: Mapping[str, object],
        *,
        resume: bool,
        check: Callable[[Record], None] = lambda _: None,
    ) -> None:
        self.path, self._check = path, check
        self._unsynced, self._synced_at = 0, time.monotonic()
        self._heads: Iterator[EntryHead] = iter(())
        with explain(path, "choose a folder that exists and is writable"):
            self._file = open_locked(path)
        try:
            with explain(path, "free some disk space and run again"):
                self._start(run, resume)
        except BaseException:
            self._file.close()
            raise
        self._unchecked = next(self._heads, None)

    def is_done(self, line: int, text: str) -> bool:
        """Whether the run has passed this line. Ask about every line, in order.

        Raises OutputError if the input has changed: the vectors of the line are those of another
        text, or a line that has vectors was skipped.
        """
        head = self._unchecked
        if head is None or head.line > line:  # new, or skipped by the earlier run
            return line < self.next_line
        if head.line < line or head.text_crc != zlib.crc32(_encode(text)):
            how = f"line {head.line} (counted from 0) differs from the text of its vectors"
            raise self._input_changed(how)
        self._unchecked = next(self._heads, None)
        return True

    def append(self, record: Record) -> None:
        """Add a record. Once this returns, a killed process does not lose it."""
        if record.line < self.next_line:
            raise OutputError(
                f"line {record.line} came after line {self.next_line - 1}; append in line order"
            )
        with explain(self.path, f"free some space, then resume: {self.num_records} lines are safe"):
            self._write(*pack_entry(record))
            self.num_records += 1
            self.next_line = record.line + 1
            if self._unsynced >= SYNC_BYTES or time.monotonic() - self._synced_at >= SYNC_SECONDS:
                self.sync()

    def all_checked(self) -> None:
        """Raise OutputError unless `is_done` was asked about every line of the earlier run."""
        if self._unchecked is not None:
            line = f"line {self._unchecked.line} (counted from 0)"
            raise self._input_changed(f"it ended before {line}, which has vectors")

    def _input_changed(self, how: str) -> OutputError:
        return OutputError(
            f"{self.path}: the input has changed: {how}; resume with the same input, or delete "
            "this file to start over"
        )

    def records(self) -> Iterator[Record]:
        """Every record, one at a time, verified by its checksum."""
        with self.path.open("rb") as file:
            read_header(file)
            for number in range(self.num_records):
                head = read_head(file)
                record = None if head is None else read_record(file, head)
                if record is None:
                    raise OutputError(
                        f"{self.path}: record {number} was damaged on disk; resume to compute it "
                        "and those after it again"
                    )
                yield record

    def sync(self) -> None:
        """Wait until every record is on the disk."""
        os.fsync(self._file.fileno())
        self._unsynced, self._synced_at = 0, time.monotonic()

    def remove(self) -> None:
        """Delete the journal: its records are in the output now, or it has none."""
        if sys.platform == "win32":
            self._file.close()  # an open file cannot be deleted there; elsewhere keep the lock
        self.path.unlink(missing_ok=True)
        self._file.close()

    def close(self) -> None:
        """Close the journal. With records it stays and can be resumed; empty, it is deleted."""
        if self.num_records == 0 and not self._file.closed:
            self.remove()
        elif not self._file.closed:
            advice = "the last lines may be lost; resume computes them again"
            with explain(self.path, advice), contextlib.closing(self._file):
                self.sync()

    def _start(self, run: Mapping[str, object], resume: bool) -> None:
        with self.path.open("rb") as file:
            try:
                found = read_header(file)
            except ValueError as error:
                raise OutputError(
                    f"{self.path}: this file exists and is not a journal of this version of "
                    "relmo; move it, or choose another output"
                ) from error
            if found is not None and resume:
                self._resume(file, found, json.loads(json.dumps(run)))
                return
            if found is not None and (done := sum(1 for _ in read_heads(file))):
                raise OutputError(
                    f"{self.path} contains {done} lines of an interrupted run; resume it with "
                    "--resume, or delete this file to start over"
                )
            if found is None and _has_entries(file):  # a crash would have left none
                raise OutputError(
                    f"{self.path}: the lines of an interrupted run are in this file, but its first "
                    "bytes are damaged, so that it cannot be resumed; put a copy of it in its "
                    "place, or delete it to start over"
                )
        self._file.truncate(0)
        self._write(pack_header(run))
        self.sync()
        sync_folder(self.path.parent)

    def _resume(self, file: BufferedReader, found: dict[str, Any], run: dict[str, Any]) -> None:
        """Keep the complete records of an earlier run; drop what a crash left incomplete."""
        pairs = {
            name: tuple(each.get(name, UNSAID.get(name)) for each in (found, run))
            for name in sorted(found.keys() | run.keys())
        }
        differing = [f"{k} was {a!r}, now {b!r}" for k, (a, b) in pairs.items() if a != b]
        if differing:
            raise OutputError(
                f"{self.path} is from a run with other settings: {'; '.join(differing)}; "
                "resume with the same settings, or delete this file to start over"
            )
        first = end = file.tell()
        for head in read_heads(file, check=self._check_found):
            end = file.tell()
            self.num_records += 1
            self.next_line = head.line + 1
        self._file.truncate(end)
        self._heads = self._heads_from(first)

    def _check_found(self, record: Record) -> None:
        try:
            self._check(record)
        except OutputError as error:
            raise OutputError(
                f"{self.path} is not from this run: {error}; delete this file to start over"
            ) from error

    def _heads_from(self, first: int) -> Iterator[EntryHead]:
        with self.path.open("rb") as file:
            file.seek(first)
            yield from read_heads(file)

    def _write(self, *pieces: bytes | memoryview) -> None:
        """Write all pieces or, as far as the file system allows, nothing."""
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


# --- the bytes of a journal


class EntryHead(NamedTuple):
    """What an entry says before its payload, the JSON and the vectors."""

    line: int
    text_crc: int
    """The CRC32 by which a line is recognized."""
    meta_length: int
    data_length: int
    crc: int


def pack_header(run: Mapping[str, object]) -> bytes:
    """The first bytes of a journal."""
    body = _encode(json.dumps(run))
    return _HEADER.pack(MAGIC, len(body), zlib.crc32(body)) + body


def read_header(file: BufferedReader) -> dict[str, Any] | None:
    """What the run is, leaving the file at the first entry; None if the header is incomplete.

    Raises:
        ValueError: This is not a journal.
    """
    start = file.read(_HEADER.size)
    if start[: len(MAGIC)] != MAGIC[: len(start)]:
        raise ValueError("not a journal")
    if len(start) < _HEADER.size:
        return None
    _, length, crc = _HEADER.unpack(start)
    body = file.read(min(length, MAX_HEADER))
    if len(body) < length or zlib.crc32(body) != crc:
        return None
    try:
        run = json.loads(body)
    except RecursionError as error:
        raise ValueError("not a journal") from error
    if not isinstance(run, dict):
        raise ValueError("not a journal")
    return run


def pack_entry(record: Record) -> tuple[bytes, memoryview]:
    """The two pieces of an entry: head and JSON, then the vectors' bytes."""
    vectors = np.ascontiguousarray(record.vectors)
    data = vectors.reshape(-1).view(np.uint8).data
    facts = [record.text, list(record.tokens), vectors.shape, vectors.dtype.str]
    # Not ASCII: escapes would join two lone surrogates into one character.
    meta = _encode(json.dumps(facts, ensure_ascii=False))
    text_crc, crc = zlib.crc32(_encode(record.text)), zlib.crc32(data, zlib.crc32(meta))
    head = _HEAD.pack(b"LINE", record.line, text_crc, len(meta), data.nbytes, crc)
    return head + _CRC.pack(zlib.crc32(head)) + meta, data


def read_head(file: BufferedReader) -> EntryHead | None:
    """The next entry's head, leaving the file at its payload; None if it is incomplete."""
    packed = file.read(_HEAD.size + _CRC.size)
    if len(packed) < _HEAD.size + _CRC.size:
        return None
    mark, *fields = _HEAD.unpack_from(packed)
    (head_crc,) = _CRC.unpack_from(packed, _HEAD.size)
    if mark != b"LINE" or zlib.crc32(packed[: _HEAD.size]) != head_crc:
        return None
    return EntryHead(*fields)


def _has_entries(file: BufferedReader) -> bool:
    """Whether entries seem to follow a header that cannot be read."""
    file.seek(0)
    return b"LINE" in file.read(min(os.fstat(file.fileno()).st_size, 2 * MAX_HEADER))


def read_heads(
    file: BufferedReader, check: Callable[[Record], None] | None = None
) -> Iterator[EntryHead]:
    """The heads of the complete entries from here on, leaving the file after each payload.

    With `check` the payloads are verified, up to the first damaged one, and given to it; otherwise
    they are skipped.
    """
    size = os.fstat(file.fileno()).st_size
    while (head := read_head(file)) is not None:
        end = file.tell() + head.meta_length + head.data_length
        if end > size:
            return
        if check is not None:
            record = read_record(file, head)
            if record is None:
                return
            check(record)
        file.seek(end)
        yield head


def read_record(file: BufferedReader, head: EntryHead) -> Record | None:
    """The record of a head just read, leaving the file after it; None if it is damaged."""
    meta = file.read(head.meta_length)
    data = np.empty(head.data_length, np.uint8)
    size = file.readinto(data.data)
    if size != data.size or zlib.crc32(data.data, zlib.crc32(meta)) != head.crc:
        return None
    try:
        text, tokens, shape, dtype = json.loads(meta.decode("utf-8", "surrogatepass"))
        if not (
            isinstance(tokens, list) and all(isinstance(each, str) for each in [text, *tokens])
        ):
            return None
        return Record(head.line, text, tokens, data.view(dtype).reshape(shape))
    except (ValueError, TypeError, RecursionError, OutputError):  # not written by relmo
        return None


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
