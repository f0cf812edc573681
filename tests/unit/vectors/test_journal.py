"""The journal: nothing appended is lost, nothing torn is kept."""

import io
import os
import time
import tracemalloc
import zlib

import numpy as np
import pytest

from relmo.errors import OutputError
from relmo.vectors import journal as journal_module
from relmo.vectors.formats import Record
from relmo.vectors.journal import (
    _CRC,
    _HEAD,
    _HEADER,
    MAGIC,
    Journal,
    pack_entry,
    pack_header,
    read_head,
    read_header,
    read_record,
)

RUN = {"model": "small", "layers": "all"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out.h5.partial"


@pytest.fixture
def written(path, make_records):
    """A journal of four records; the byte where each ends, the opening's end first."""
    journal = Journal(path, RUN, resume=False)
    ends = [path.stat().st_size]
    for record in make_records(4):
        journal.append(record)
        ends.append(path.stat().st_size)
    journal.close()
    return ends


def lines_of(journal):
    return [record.line for record in journal.records()]


def test_records_come_back_in_order(path, make_records):
    journal = Journal(path, RUN, resume=False)
    for record in make_records(12):
        journal.append(record)
    for wanted, found in zip(make_records(12), journal.records(), strict=True):
        assert (wanted.line, wanted.text, wanted.tokens) == (found.line, found.text, found.tokens)
        assert np.array_equal(wanted.vectors, found.vectors)
    journal.close()


def test_a_tail_torn_at_any_byte_is_cut_and_made_again(path, written, make_records):
    whole, last = path.read_bytes(), list(make_records(4))[-1]
    for length in range(written[-2], written[-1]):
        path.write_bytes(whole[:length])
        journal = Journal(path, RUN, resume=True)
        assert (journal.num_records, journal.next_line) == (3, 3)
        assert path.stat().st_size == written[-2]
        journal.append(last)
        journal.close()
        assert path.read_bytes() == whole


def test_any_damaged_byte_cuts_there(path, written):
    whole = path.read_bytes()
    for position in range(written[2], len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        journal = Journal(path, RUN, resume=True)
        assert journal.num_records == (2 if position < written[3] else 3)
        journal.close()


def test_an_opening_torn_at_any_byte_begins_anew(path, written):
    whole = path.read_bytes()
    for length in range(written[0]):
        path.write_bytes(whole[:length])
        journal = Journal(path, RUN, resume=True)
        assert journal.num_records == 0
        assert path.read_bytes() == whole[: written[0]]
        journal.close()


@pytest.mark.parametrize("resume", [True, False])
def test_a_damaged_opening_before_records_is_an_error_and_all_is_kept(path, written, resume):
    whole = path.read_bytes()
    for position in range(written[0]):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        with pytest.raises(OutputError, match="to start over|move it"):
            Journal(path, RUN, resume=resume)
        assert path.read_bytes() == damaged


def test_a_link_or_a_pipe_is_refused_at_once(path, tmp_path):
    precious = tmp_path / "precious"
    precious.write_bytes(b"")
    path.symlink_to(precious)
    for _ in range(2):
        with pytest.raises(OutputError, match="a link, a pipe or a device"):
            Journal(path, RUN, resume=True)
        path.unlink()
        os.mkfifo(path)
    assert precious.read_bytes() == b""


@pytest.mark.parametrize("body", [b"[1, 2]", b"5", b"[" * 100_000, b"{{", b"\xff"])
def test_an_opening_that_is_no_object_is_no_journal(path, body):
    path.write_bytes(_HEADER.pack(MAGIC, len(body), zlib.crc32(body)) + body)
    with pytest.raises(OutputError, match="not a journal"):
        Journal(path, RUN, resume=True)


@pytest.mark.parametrize(
    "facts",
    [
        b"{{", b"[" * 100_000, b"5", b'["a", ["a"], [1, 4]]', b'["a", ["a"], [1, 2], "O"]',
        b'["a", ["a"], [1, 4], "zzz"]', b'["a", ["a"], [1, 4], ">f4"]', b'["a", ["a"], [7], "<f4"]',
        b'["a", ["a"], [1, 2], "<f8"]', b'["a", [5], [1, 4], "<f4"]', b'[5, ["a"], [1, 4], "<f4"]',
        b'["a", "a", [1, 4], "<f4"]', b'["a", ["a"], "x", "<f4"]',
    ],
)  # fmt: skip
def test_what_is_no_record_is_cut(path, written, make_records, facts):
    data = bytes(16)
    head = _HEAD.pack(b"LINE", 4, 0, len(facts), len(data), zlib.crc32(data, zlib.crc32(facts)))
    with path.open("ab") as file:
        file.write(head + _CRC.pack(zlib.crc32(head)) + facts + data)
    journal = Journal(path, RUN, resume=True)
    assert lines_of(journal) == [0, 1, 2, 3]
    journal.close()


def test_garbage_after_the_last_record_is_cut(path, written):
    path.write_bytes(path.read_bytes() + b"LINE" + bytes(100))
    journal = Journal(path, RUN, resume=True)
    assert lines_of(journal) == [0, 1, 2, 3]
    journal.close()
    assert path.stat().st_size == written[-1]


def test_another_run_is_refused_with_every_difference(path, written):
    before = path.read_bytes()
    with pytest.raises(OutputError) as caught:
        Journal(path, {"model": "large", "layers": "all", "precision": "int8"}, resume=True)
    message = str(caught.value)
    assert "model was 'small', now 'large'" in message
    assert "precision was None, now 'int8'" in message
    assert "layers" not in message
    assert "delete this file" in message
    assert path.read_bytes() == before


def test_a_run_is_compared_as_json_holds_it(path):
    journal = Journal(path, {"layers": (0, 1)}, resume=False)
    journal.append(Record(0, "", [], np.zeros((0, 2), np.float32)))
    journal.close()
    Journal(path, {"layers": [0, 1]}, resume=True).close()


def test_without_resume_an_earlier_run_is_refused_and_kept(path, written):
    with pytest.raises(OutputError, match="contains 4 lines of an interrupted run"):
        Journal(path, {"model": "large"}, resume=False)
    assert path.exists()


def test_without_resume_an_earlier_run_that_made_nothing_is_no_hindrance(path):
    path.write_bytes(pack_header({"model": "small"}))
    Journal(path, {"model": "large"}, resume=False).close()
    assert not path.exists()


@pytest.mark.parametrize("resume", [True, False])
def test_a_file_that_is_no_journal_is_left_alone(path, resume):
    path.write_bytes(b"somebody's thesis")
    with pytest.raises(OutputError, match=r"not a journal.*move it"):
        Journal(path, RUN, resume=resume)
    assert path.read_bytes() == b"somebody's thesis"


def test_the_same_input_is_recognised(path, written, make_records):
    journal = Journal(path, RUN, resume=True)
    asked = [journal.is_done(record.line, record.text) for record in make_records(6)]
    assert asked == [True] * 4 + [False] * 2
    journal.all_checked()
    journal.close()


def test_another_text_is_refused_with_its_line(path, written, make_records):
    journal = Journal(path, RUN, resume=True)
    texts = [record.text for record in make_records(4)]
    assert journal.is_done(0, texts[0])
    with pytest.raises(OutputError, match=r"input has changed: line 1 .*delete this file"):
        journal.is_done(1, texts[1] + "!")
    journal.close()


def test_a_line_that_vanished_is_noticed(path, written, make_records):
    journal = Journal(path, RUN, resume=True)
    texts = [record.text for record in make_records(4)]
    assert journal.is_done(0, texts[0])
    with pytest.raises(OutputError, match="input has changed: line 1 "):
        journal.is_done(2, texts[2])
    journal.close()


def test_an_input_that_ends_early_is_noticed(path, written, make_records):
    journal = Journal(path, RUN, resume=True)
    for record in make_records(3):
        journal.is_done(record.line, record.text)
    with pytest.raises(OutputError, match=r"it ended before line 3"):
        journal.all_checked()
    journal.close()


def test_lines_left_out_are_passed_again(path, make_records):
    records = [record for record in make_records(6) if record.line != 2]
    journal = Journal(path, RUN, resume=False)
    for record in records:
        journal.append(record)
    journal.close()
    journal = Journal(path, RUN, resume=True)
    assert all(journal.is_done(record.line, record.text) for record in make_records(6))
    journal.all_checked()
    assert lines_of(journal) == [0, 1, 3, 4, 5]
    journal.close()


def test_lines_do_not_go_back(path, make_records):
    journal = Journal(path, RUN, resume=False)
    first, second, *_ = make_records()
    journal.append(second)
    for line in (first, second):
        with pytest.raises(OutputError, match="append in line order"):
            journal.append(line)
    journal.close()


def test_one_process_at_a_time(path, make_records):
    journal = Journal(path, RUN, resume=False)
    journal.append(next(make_records()))
    for resume in (True, False):
        with pytest.raises(OutputError, match="another process"):
            Journal(path, RUN, resume=resume)
    assert lines_of(journal) == [0]
    journal.close()


def test_a_full_disk_keeps_what_is_there(path, written, make_records, small_disk):
    big = Record(4, "x", ["x"], np.ones((1, 2000), np.float32))
    journal = Journal(path, RUN, resume=True)
    with (
        small_disk(written[-1] + 1000),
        pytest.raises(OutputError, match=r"out.h5.partial: File too large; .*4 lines are safe"),
    ):
        journal.append(big)
    assert path.stat().st_size == written[-1]
    journal.append(big)  # space was made
    assert lines_of(journal) == [0, 1, 2, 3, 4]
    journal.close()


def test_a_disk_that_is_full_from_the_start_leaves_nothing_usable_behind(path, small_disk):
    with small_disk(10), pytest.raises(OutputError, match="File too large"):
        Journal(path, RUN, resume=False)
    journal = Journal(path, RUN, resume=True)
    assert journal.num_records == 0
    journal.close()


def test_damage_found_while_reading_is_mended_by_resume(path, written):
    journal = Journal(path, RUN, resume=True)
    damaged = bytearray(path.read_bytes())
    damaged[written[2] - 1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(OutputError, match=r"record 1 was damaged.*resume"):
        lines_of(journal)
    journal.close()
    journal = Journal(path, RUN, resume=True)
    assert lines_of(journal) == [0]
    journal.close()


def test_the_disk_is_synced_at_bounded_intervals(path, make_records, monkeypatch):
    synced, fsync, clock = [], os.fsync, [time.monotonic()]
    monkeypatch.setattr("os.fsync", lambda number: (synced.append(number), fsync(number)))
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(journal_module, "SYNC_BYTES", 600)
    journal = Journal(path, RUN, resume=False)
    synced.clear()
    small = [Record(line, "", [], np.zeros((0, 2), np.float32)) for line in range(4)]
    journal.append(small[0])
    assert len(synced) == 0
    clock[0] += journal_module.SYNC_SECONDS
    journal.append(small[1])
    assert len(synced) == 1
    journal.append(small[2])
    assert len(synced) == 1
    journal.append(Record(3, "", ["x"], np.zeros((1, 200), np.float32)))
    assert len(synced) == 2
    journal.close()
    assert len(synced) == 3


def test_memory_does_not_grow_with_the_records(path):
    vectors = np.zeros((3, 1, 4), np.float32)
    tracemalloc.start()
    journal = Journal(path, RUN, resume=False)
    for line in range(5_000):
        journal.append(Record(line, "a line of text", ["x"], vectors))
    journal.close()
    journal = Journal(path, RUN, resume=True)
    assert all(journal.is_done(line, "a line of text") for line in range(5_000))
    assert sum(1 for _ in journal.records()) == 5_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    journal.remove()
    assert peak < 100_000  # the file has a million bytes


# --- the bytes of a journal


def reader(*pieces):
    return io.BufferedReader(io.BytesIO(b"".join(pieces)))


def test_a_record_comes_back_bit_for_bit(make_records):
    for dtype in ("float32", "float16"):
        for record in make_records(8, 3, dtype):
            file = reader(*pack_entry(record))
            back = read_record(file, read_head(file))
            assert (back.line, back.text, back.tokens) == (record.line, record.text, record.tokens)
            assert back.vectors.dtype == record.vectors.dtype
            assert np.array_equal(back.vectors, record.vectors)


def test_two_lone_surrogates_are_not_joined():
    text = "\ud83d" + "\ude00"
    record = Record(0, text, [text], np.zeros((1, 2), np.float32))
    file = reader(*pack_entry(record))
    assert read_record(file, read_head(file)).text == text


def test_vectors_that_are_a_view_are_packed_by_value():
    vectors = np.arange(24, dtype=np.float32).reshape(4, 2, 3).swapaxes(0, 1)  # not contiguous
    file = reader(*pack_entry(Record(0, "", ["a"] * 4, vectors)))
    assert np.array_equal(read_record(file, read_head(file)).vectors, vectors)


def test_a_header_comes_back():
    run = {"model": "é", "layers": [0, 1]}
    assert read_header(reader(pack_header(run))) == run


def test_an_incomplete_header_is_none():
    packed = pack_header({"model": "m"})
    for length in range(len(packed)):
        assert read_header(reader(packed[:length])) is None


def test_other_files_are_told_from_torn_ones():
    for start in (b"RELMOJ2\nmore of it", b"x", b"\x89HDF\r\n\x1a\n"):
        with pytest.raises(ValueError, match="not a journal"):
            read_header(reader(start))


def test_a_head_with_any_bit_changed_is_none(make_records):
    head, _ = pack_entry(next(make_records()))
    for position in range(36):
        changed = bytearray(head)
        changed[position] ^= 1
        assert read_head(reader(changed)) is None
