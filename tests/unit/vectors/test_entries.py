"""The bytes of a journal, written and read back."""

import io

import numpy as np
import pytest

from relmo.vectors import entries
from relmo.vectors.record import Record


def reader(*pieces):
    return io.BufferedReader(io.BytesIO(b"".join(pieces)))


def test_a_record_comes_back_bit_for_bit(make_records):
    for dtype in ("float32", "float16"):
        for record in make_records(8, 3, dtype):
            file = reader(*entries.pack(record))
            back = entries.read_record(file, entries.read_head(file))
            assert (back.line, back.text, back.tokens) == (record.line, record.text, record.tokens)
            assert back.vectors.dtype == record.vectors.dtype
            assert np.array_equal(back.vectors, record.vectors)


def test_two_lone_surrogates_are_not_joined():
    text = "\ud83d" + "\ude00"
    record = Record(0, text, [text], np.zeros((1, 2), np.float32))
    file = reader(*entries.pack(record))
    assert entries.read_record(file, entries.read_head(file)).text == text


def test_vectors_that_are_a_view_are_packed_by_value():
    vectors = np.arange(24, dtype=np.float32).reshape(4, 2, 3).swapaxes(0, 1)  # not contiguous
    file = reader(*entries.pack(Record(0, "", ["a"] * 4, vectors)))
    assert np.array_equal(entries.read_record(file, entries.read_head(file)).vectors, vectors)


def test_an_opening_comes_back():
    run = {"model": "é", "layers": [0, 1]}
    assert entries.read_opening(reader(entries.pack_opening(run))) == run


def test_a_torn_opening_is_none():
    packed = entries.pack_opening({"model": "m"})
    for length in range(len(packed)):
        assert entries.read_opening(reader(packed[:length])) is None


def test_other_files_are_told_from_torn_ones():
    for start in (b"RELMOJ2\nmore of it", b"x", b"\x89HDF\r\n\x1a\n"):
        with pytest.raises(ValueError, match="not a journal"):
            entries.read_opening(reader(start))


def test_a_head_with_any_bit_changed_is_none(make_records):
    head, _ = entries.pack(next(make_records()))
    for position in range(36):
        changed = bytearray(head)
        changed[position] ^= 1
        assert entries.read_head(reader(changed)) is None
