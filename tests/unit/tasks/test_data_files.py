"""Lines of labelled files: counted, unpacked, named where they cannot be read."""

import gzip
import lzma

import pytest

from relmo.errors import DataError, TextError
from relmo.tasks.data_files import numbered_lines, whole_text

TEXT = "Grüße 👩‍🚀 .\n\nb\u2028c\tשלום\nend"
LINES = [(1, "Grüße 👩‍🚀 ."), (2, ""), (3, "b\u2028c\tשלום"), (4, "end")]


@pytest.mark.parametrize(
    ("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)]
)
def test_a_file_reads_the_same_however_it_is_packed(tmp_path, suffix, pack):
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(pack(TEXT.encode()))
    assert list(numbered_lines(path)) == list(numbered_lines(str(path))) == LINES
    assert whole_text(path) == TEXT


def test_zst_files_are_read_too(tmp_path):
    zstandard = pytest.importorskip("zstandard", reason="pip install 'relmo[zstd]'")
    path = tmp_path / "a.txt.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(TEXT.encode()))
    assert whole_text(path) == TEXT


def test_a_byte_order_mark_and_carriage_returns_are_dropped(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    assert list(numbered_lines(path)) == [(1, "a"), (2, "b")]
    assert whole_text(path) == "a\nb"


def test_an_empty_file_has_no_lines(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"")
    assert list(numbered_lines(path)) == []
    assert whole_text(path) == ""


@pytest.mark.parametrize("read", [whole_text, lambda path: list(numbered_lines(path))])
def test_what_cannot_be_read_is_named(tmp_path, read):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\nb\ncaf\xe9\n")
    with pytest.raises(DataError, match=r"a\.txt, line 3: not UTF-8 .*0xe9 in position 3"):
        read(path)
    with pytest.raises(TextError, match=r"none\.txt: cannot be read: no such file"):
        read(tmp_path / "none.txt")
    with pytest.raises(TextError, match="cannot be read"):
        read(tmp_path)
    cut = tmp_path / "cut.xz"
    cut.write_bytes(lzma.compress(TEXT.encode())[:-9])
    with pytest.raises(TextError, match=r"cut\.xz: cannot be read .*; is the file complete"):
        read(cut)


def test_a_line_is_handed_out_before_a_later_one_is_looked_at(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\n\xff\n")
    assert next(iter(numbered_lines(path))) == (1, "a")
