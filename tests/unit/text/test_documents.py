"""Files -> lines -> documents: found once, decompressed, errors name file and line."""

import gzip
import io
import lzma

import pytest

from relmo.errors import MissingExtra, TextError
from relmo.text import documents
from relmo.text.documents import (
    find_files,
    read_documents,
    read_files,
    read_lines,
    split_documents,
)

zstandard = pytest.importorskip("zstandard", reason="pip install 'relmo[zstd]'")

TEXT = "Grüße 👩‍🚀 .\nb\u2028c\n\nשלום\n\n\n \t\nend"
DOCUMENTS = [["Grüße 👩‍🚀 .", "b\u2028c"], ["שלום"], ["end"]]


def pack(raw: bytes, suffix: str) -> bytes:
    """The bytes, compressed as the suffix says."""
    packers = {
        "": bytes,
        ".gz": gzip.compress,
        ".xz": lzma.compress,
        ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,  # as the program does
    }
    return packers[suffix](raw)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_a_file_reads_the_same_however_it_is_packed(suffix, tmp_path):
    path = tmp_path / f"text.txt{suffix}"
    path.write_bytes(pack(TEXT.encode(), suffix))
    assert list(read_documents(path)) == DOCUMENTS


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_packed_files_joined_end_to_end_are_read_to_the_end(suffix, tmp_path):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(pack(b"a\nb", suffix) + pack(b"c\n\nd", suffix))
    assert list(read_documents(path)) == [["a", "bc"], ["d"]]


def test_a_frame_of_zst_that_holds_no_text_is_skipped(tmp_path):
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    path = tmp_path / "text.zst"
    path.write_bytes(skippable + pack(b"a\n", ".zst") + skippable)
    assert list(read_documents(path)) == [["a"]]


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_a_file_without_text_has_no_documents(suffix, tmp_path):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(pack(b"\n \n", suffix))
    assert list(read_documents(path)) == []


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize("lost", [1, 5, 20_000])
def test_a_packed_file_that_ends_too_early_is_named(suffix, lost, tmp_path):
    text = "".join(f"{i * 7919 % 99991} words\n" for i in range(20_000))
    path = tmp_path / f"part{suffix}"
    path.write_bytes(pack(text.encode(), suffix)[:-lost])
    with pytest.raises(TextError, match=rf"part{suffix}: cannot be read .*complete\?"):
        list(read_documents(path))


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_a_packed_file_with_damaged_bytes_is_named(suffix, tmp_path):
    raw = bytearray(pack("".join(f"{i} words\n" for i in range(5000)).encode(), suffix))
    raw[100:200] = bytes(100)
    path = tmp_path / f"bad{suffix}"
    path.write_bytes(raw)
    with pytest.raises(TextError, match=f"bad{suffix}"):
        list(read_documents(path))


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_plain_text_under_a_packed_name_is_named(suffix, tmp_path):
    path = tmp_path / f"plain{suffix}"
    path.write_text("This is not packed at all.\n")
    with pytest.raises(TextError, match=f"plain{suffix}"):
        list(read_documents(path))


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_a_file_that_is_gone_is_named(suffix, tmp_path):
    with pytest.raises(TextError, match=f"gone{suffix}: cannot be read"):
        list(read_documents(tmp_path / f"gone{suffix}"))


def test_zst_without_its_extra_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("relmo.errors.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'relmo\[zstd\]'"):
        list(read_documents(tmp_path / "text.zst"))


def test_text_that_is_not_utf8_is_named_by_its_line(tmp_path):
    path = tmp_path / "latin.txt.gz"
    path.write_bytes(pack(b"good\n\ncaf\xe9\n", ".gz"))
    with pytest.raises(TextError, match=r"latin.txt.gz: line 3 is not UTF-8 \(byte 0xe9 at byte 4"):
        list(read_documents(path))
    assert list(read_documents(path, "replace")) == [["good"], ["caf\ufffd"]]


def test_blank_lines_end_documents_and_are_in_none():
    assert list(split_documents(["", "a", "b", " \u2028", "", "c"])) == [["a", "b"], ["c"]]
    assert list(split_documents([])) == []


def test_a_document_ends_after_so_many_lines(monkeypatch):
    monkeypatch.setattr(documents, "MAX_LINES", 2)
    assert list(split_documents("abc")) == [["a", "b"], ["c"]]
    assert list(split_documents(["a", "b", "", "c"])) == [["a", "b"], ["c"]]


def test_a_document_ends_after_so_many_characters(monkeypatch):
    monkeypatch.setattr(documents, "MAX_CHARACTERS", 5)
    assert list(split_documents(["abc", "de", "f"])) == [["abc", "de"], ["f"]]


@pytest.fixture
def folder(tmp_path):
    """Four files of text on two floors, and hidden ones."""
    for name in ("b.txt", "a.txt", "deep/er/c.txt", "deep/d.md", ".hidden", "deep/.git/config"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("a.txt", ["a.txt"]),
        (".", ["a.txt", "b.txt", "deep/d.md", "deep/er/c.txt"]),
        ("deep", ["deep/d.md", "deep/er/c.txt"]),
        ("*.txt", ["a.txt", "b.txt"]),
        ("**/*.txt", ["a.txt", "b.txt", "deep/er/c.txt"]),
        ("de*", ["deep/d.md", "deep/er/c.txt"]),
        ("*", ["a.txt", "b.txt", "deep/d.md", "deep/er/c.txt"]),
        (".hidden", [".hidden"]),
    ],
)
def test_a_path_a_folder_and_a_glob_name_files(pattern, wanted, folder):
    assert find_files([f"{folder}/{pattern}"]) == [folder / name for name in wanted]


def test_a_file_named_twice_is_read_once(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "link.txt").symlink_to(folder / "a.txt")
    named = ["a.txt", "./a.txt", folder / "a.txt", "deep/../a.txt", "a*", "link.txt"]
    assert [path.resolve() for path in find_files(named)] == [folder / "a.txt"]


def test_a_name_with_the_letters_of_a_glob_is_a_file_first(tmp_path):
    (tmp_path / "[1].txt").write_text("x")
    (tmp_path / "1.txt").write_text("x")
    assert find_files([tmp_path / "[1].txt"]) == [tmp_path / "[1].txt"]


@pytest.mark.parametrize("pattern", ["gone.txt", "*.tsv", "empty", "emp*"])
def test_a_pattern_that_names_no_file_is_named(pattern, folder):
    with pytest.raises(TextError, match="no files found; expected text files, folders or globs"):
        find_files([folder / "a.txt", folder / pattern])


# --- lines


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


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_a_line_beyond_the_limit_is_an_error_and_never_whole_in_memory(
    tmp_path, monkeypatch, suffix
):
    monkeypatch.setattr(documents, "MAX_LINE_BYTES", 100)
    path = tmp_path / f"text{suffix}"
    path.write_bytes(pack(b"a\n" + b"b" * 99 + b"\n", suffix))
    assert list(read_documents(path)) == [["a", "b" * 99]]
    path.write_bytes(pack(b"a\n" + b"b" * 200_000, suffix))
    with pytest.raises(TextError, match="line 2 has more than 100 bytes"):
        list(read_documents(path))
