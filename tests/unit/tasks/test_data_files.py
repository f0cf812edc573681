"""Parts of a folder; lines of files; columns and pairs. Tables are tested in sst and snli."""

import gzip
import lzma

import pytest

from relmo.errors import ConfigError, DataError, TextError
from relmo.tasks.data_files import (
    PARTS,
    find_part,
    find_parts,
    need_part,
    numbered_lines,
    sentence_lines,
    split_cells,
    whole_text,
)
from relmo.tasks.sst.task import SstTask

LAYOUTS = {
    "CoNLL-2003": ("eng.train", "eng.testa", "eng.testb"),
    "SST": ("train.txt", "dev.txt", "test.txt"),
    "SICK": ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt"),
    "UD": ("en_ewt-ud-train.conllu", "en_ewt-ud-dev.conllu", "en_ewt-ud-test.conllu"),
    "PropBank": ("x.train.conll.xz", "x.dev.conll.xz", "x.test.conll.xz"),
    "camel case": ("wikiTrain.csv", "wikiDevelopment.csv", "wikiTest.csv"),
    "val": ("train.csv", "val.csv", "test.csv"),
    "digits": ("wnut17train.conll", "wnut17validation.conll", "wnut17testing.conll"),
}


def fill(folder, *names):
    for name in names:
        (folder / name).write_text("")
    return folder


@pytest.mark.parametrize("names", LAYOUTS.values(), ids=LAYOUTS)
def test_the_parts_of_known_sets_are_found(tmp_path, names):
    fill(tmp_path, *names, "readme.txt", "LICENSE", ".train.swp", "._test.txt")
    (tmp_path / "train").mkdir()
    assert [find_part(tmp_path, part).name for part in PARTS] == list(names)
    assert find_parts(tmp_path) == {p: tmp_path / n for p, n in zip(PARTS, names, strict=True)}


def test_a_word_in_the_middle_of_another_says_nothing(tmp_path):
    fill(tmp_path, "latest.train.txt", "contest.dev.txt")
    assert need_part(tmp_path, "train").name == "latest.train.txt"
    assert find_part(tmp_path, "test") is None


def test_suffixes_choose_among_files(tmp_path):
    fill(tmp_path, "a.train.jsonl.gz", "a.train.txt")
    assert find_part(tmp_path, "train", (".jsonl", ".txt")).name == "a.train.jsonl.gz"
    assert find_part(tmp_path, "train", (".txt",)).name == "a.train.txt"
    assert find_part(tmp_path, "train", (".csv",)) is None


@pytest.mark.parametrize("other", ["train.jsonl", "train.csv.gz", "my_training.tsv", "train.TXT"])
def test_no_file_is_taken_silently_beside_another(tmp_path, other):
    fill(tmp_path, "train.csv", other, "dev.csv")
    with pytest.raises(ConfigError, match=r"train.csv.* could each be the train part; keep one"):
        find_part(tmp_path, "train", SstTask.suffixes)


def test_two_names_of_the_dev_part_are_both_named(tmp_path):
    fill(tmp_path, "train.csv", "dev.csv", "valid.csv")
    with pytest.raises(ConfigError, match=r"dev.csv, valid.csv could each be the dev part"):
        find_part(tmp_path, "dev")


def test_two_files_that_could_be_a_part_are_both_named(tmp_path):
    fill(tmp_path, "litbank.train.conll", "ontogum.train.conll")
    with pytest.raises(ConfigError, match=r"litbank.*, ontogum.* could each be the train part"):
        find_part(tmp_path, "train")


def test_a_file_that_names_two_parts_is_refused(tmp_path):
    fill(tmp_path, "train-and-test.txt")
    with pytest.raises(ConfigError, match=r"train or the test part; rename it"):
        find_part(tmp_path, "train")


def test_a_word_that_only_begins_with_val_says_nothing(tmp_path):
    assert find_part(fill(tmp_path, "values.csv"), "dev") is None


def test_a_folder_of_folders_names_those(tmp_path):
    for name in ("conll2003", "wnut17", ".git"):
        (tmp_path / name).mkdir()
    with pytest.raises(
        ConfigError, match="no train part.*; is it in a subfolder, conll2003, wnut17"
    ):
        need_part(tmp_path, "train")


def test_a_part_or_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="no dev part; expected a file with dev or testa"):
        need_part(fill(tmp_path, "train.txt"), "dev")
    with pytest.raises(ConfigError, match="gone is not a folder; give the folder with the data"):
        find_part(tmp_path / "gone", "train")


# ── lines ───────────────────────────────────────────────────────────────────────────────────

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
    with pytest.raises(TextError, match=r"none\.txt: cannot be read: no such file; check"):
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


# ── rows ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "has_tabs", "cells"),
    [
        ("a  b c ", None, ["a", "b", "c"]),
        ("a b\tc", None, ["a b", "c"]),
        ("a b\tc", False, ["a", "b", "c"]),
        ("a b", True, ["a b"]),
        (" a \t\tb", None, ["a", "", "b"]),
        ("8\xa01/2 x", None, ["8\xa01/2", "x"]),
    ],
)
def test_cells_are_separated_by_tabs_or_by_spaces(line, has_tabs, cells):
    assert split_cells(line, has_tabs) == cells


def test_sentences_end_at_blank_lines_and_boundaries_and_comments_are_skipped(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("#c\na\n#c\nb\n \t\n\nc\n-X- y\nd", encoding="utf-8")
    found = list(sentence_lines(path, comment="#", boundary="-X-"))
    assert found == [[(2, "a"), (4, "b")], [(7, "c")], [(9, "d")]]
    assert [len(lines) for lines in sentence_lines(path)] == [4, 3]


@pytest.mark.parametrize(("encoding", "name"), [("utf-16", "UTF-16"), ("latin-1", "LATIN1")])
def test_a_file_in_another_encoding_is_told_how_to_be_converted(tmp_path, encoding, name):
    path = tmp_path / "a.csv"
    path.write_bytes("text,é\n".encode(encoding))
    with pytest.raises(DataError, match=f"CSV UTF-8 in Excel, or run iconv -f {name} -t UTF-8"):
        list(numbered_lines(path))
