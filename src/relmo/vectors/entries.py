r"""The bytes of a journal: an opening that says what the run is, then one entry per record.

    opening   b"RELMOJ1\n", length and CRC32 of a JSON object, the object
    entry     head, the record's text, tokens, shape and dtype as JSON, the vectors' raw bytes
    head      b"LINE", line, CRC32 of the text, lengths of the JSON and of the vectors,
              CRC32 of these two together, CRC32 of the head so far

All numbers are little-endian. A head has a checksum of its own so that its lengths can be trusted:
a reader may step over vectors, and never reads far on the word of a damaged number.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from relmo.vectors.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from io import BufferedReader

MAGIC = b"RELMOJ1\n"
_OPENING = struct.Struct("<8sII")
_HEAD = struct.Struct("<4sQIIQI")
_CRC = struct.Struct("<I")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Head:
    """What an entry says before its payload."""

    line: int
    text_crc: int
    meta_length: int
    data_length: int
    crc: int

    @property
    def length(self) -> int:
        """Bytes of the payload: the JSON and the vectors."""
        return self.meta_length + self.data_length


def text_checksum(text: str) -> int:
    """The CRC32 by which a line is known again."""
    return zlib.crc32(_encode(text))


def pack_opening(run: Mapping[str, object]) -> bytes:
    """The bytes that begin a journal."""
    body = _encode(json.dumps(run))
    return _OPENING.pack(MAGIC, len(body), zlib.crc32(body)) + body


def read_opening(file: BufferedReader) -> dict[str, Any] | None:
    """What the run is, the file left at the first entry; None if the opening is torn or missing.

    Raises:
        ValueError: These are not the bytes of a journal.
    """
    start = file.read(_OPENING.size)
    if start[: len(MAGIC)] != MAGIC[: len(start)]:
        raise ValueError("not a journal")
    if len(start) < _OPENING.size:
        return None
    _, length, crc = _OPENING.unpack(start)
    body = file.read(length)
    if len(body) < length or zlib.crc32(body) != crc:
        return None
    run: dict[str, Any] = json.loads(body)
    return run


def pack(record: Record) -> tuple[bytes, memoryview]:
    """The two pieces of an entry: head and JSON, then the vectors' bytes."""
    vectors = np.ascontiguousarray(record.vectors)
    data = vectors.reshape(-1).view(np.uint8).data
    meta = _encode(
        json.dumps(
            [record.text, list(record.tokens), vectors.shape, vectors.dtype.str],
            ensure_ascii=False,  # escapes would join two lone surrogates into one character
        )
    )
    crc = zlib.crc32(data, zlib.crc32(meta))
    head = _HEAD.pack(b"LINE", record.line, text_checksum(record.text), len(meta), data.nbytes, crc)
    return head + _CRC.pack(zlib.crc32(head)) + meta, data


def read_head(file: BufferedReader) -> Head | None:
    """The next entry's head, the file left at its payload; None if it is torn or missing."""
    packed = file.read(_HEAD.size + _CRC.size)
    if len(packed) < _HEAD.size + _CRC.size:
        return None
    mark, line, text_crc, meta_length, data_length, crc = _HEAD.unpack_from(packed)
    (head_crc,) = _CRC.unpack_from(packed, _HEAD.size)
    if mark != b"LINE" or zlib.crc32(packed[: _HEAD.size]) != head_crc:
        return None
    return Head(line, text_crc, meta_length, data_length, crc)


def read_heads(file: BufferedReader, *, check: bool) -> Iterator[Head]:
    """The heads of the whole entries from here on, the file left after each one's payload.

    With `check` the payloads are read too, up to the first damaged one; otherwise stepped over.
    """
    size = os.fstat(file.fileno()).st_size
    while (head := read_head(file)) is not None:
        end = file.tell() + head.length
        if end > size or (check and not payload_is_whole(file, head)):
            return
        file.seek(end)
        yield head


def payload_is_whole(file: BufferedReader, head: Head) -> bool:
    """Whether the payload is all there and undamaged, the file left after it."""
    crc, left = 0, head.length
    while left > 0:
        chunk = file.read(min(left, _CHUNK))
        if not chunk:
            return False
        crc, left = zlib.crc32(chunk, crc), left - len(chunk)
    return crc == head.crc


def read_record(file: BufferedReader, head: Head) -> Record | None:
    """The record of a head just read, the file left after it; None if it is damaged."""
    meta = file.read(head.meta_length)
    data = np.empty(head.data_length, np.uint8)
    if file.readinto(data.data) != data.size:
        return None
    if zlib.crc32(data.data, zlib.crc32(meta)) != head.crc:
        return None
    text, tokens, shape, dtype = json.loads(meta.decode("utf-8", "surrogatepass"))
    return Record(head.line, text, tokens, data.view(dtype).reshape(shape))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
