"""Bytes -> lines: nothing dropped, what is not UTF-8 named."""

import io

import pytest

from relmo.errors import TextError
from relmo.text.lines import read_files, read_lines


def lines(raw: bytes, errors="strict") -> list[str]:
    return list(read_lines(io.BytesIO(raw), "text.txt", errors))


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
        (b"a\x00\x0b\x0cb\n", ["a\x00\x0b\x0cb"]),
        ("a\u2028b\x85c\n".encode(), ["a\u2028b\x85c"]),
        (b"a\rb\n", ["a\rb"]),
    ],
)
def test_only_a_newline_ends_a_line(raw, wanted):
    assert lines(raw) == wanted


def test_a_bad_byte_is_named_by_its_line():
    with pytest.raises(TextError, match=r"text.txt: line 2 is not UTF-8 \(byte 0xff at byte 3"):
        lines(b"good\nab\xff\n")


def test_a_lone_surrogate_in_utf8_is_a_bad_byte():
    with pytest.raises(TextError, match="line 1"):
        lines(b"\xed\xa0\x80\n")


def test_utf16_is_recognised():
    with pytest.raises(TextError, match="looks like UTF-16"):
        lines("text".encode("utf-16"))


def test_bad_bytes_can_be_replaced():
    assert lines(b"ab\xffc\n", "replace") == ["ab\ufffdc"]


def test_files_follow_each_other_and_keep_their_own_line_numbers(tmp_path):
    (tmp_path / "1").write_bytes(b"a\nb")
    (tmp_path / "2").write_bytes(b"c\n")
    assert list(read_files([tmp_path / "1", tmp_path / "2", io.BytesIO(b"d")])) == list("abcd")
    (tmp_path / "2").write_bytes(b"\xff\n")
    with pytest.raises(TextError, match="2: line 1"):
        list(read_files([tmp_path / "1", tmp_path / "2"]))


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(TextError, match="cannot be read"):
        list(read_files([tmp_path]))
