"""Tables -> pairs of texts; what has no words is named by file and line."""

import json

import pytest

from relmo.errors import DataError, TextWarning
from relmo.tasks.encoder.data import read_pairs, read_text
from relmo.tasks.plain_text import LONGEST
from relmo.tasks.tables import Columns
from tests.support.toy_encoder import pair

COLUMNS = Columns("query", "positive")


def read(tmp_path, *rows):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return read_pairs(path, COLUMNS)


def row(**cells):
    return {"query": "Who sang?", "positive": "Mira sang.", **cells}


# ── texts ───────────────────────────────────────────────────────────────────────────────────


def test_a_text_is_its_sentences_as_words():
    found = read_text("Mira's song.  Nobody\nheard it!\n\nA headline\n")
    assert found == (
        ("Mira", "'s", "song", "."),
        ("Nobody", "heard", "it", "!"),
        ("A", "headline"),
    )


@pytest.mark.parametrize("text", ["", " \n\t", "\n\n"])
def test_a_text_without_words_has_no_sentences(text):
    assert read_text(text) == ()


def test_odd_words_are_words():
    words = ("שלום", "👩‍🚀", "e\u0301", "x" * 400)
    assert read_text(" ".join(words)) == (words,)


def test_what_has_no_end_for_long_is_read_in_pieces():
    found = read_text("word " * (2 * LONGEST + 3))
    assert [len(words) for words in found] == [LONGEST, LONGEST, 3]


# ── pairs ───────────────────────────────────────────────────────────────────────────────────


def test_a_row_becomes_a_pair(tmp_path):
    rows = [row(negative="Sol left.", kind="question"), row()]
    assert read(tmp_path, *rows) == [
        pair("Who sang?", "Mira sang.", "Sol left.", kind="question"),
        pair("Who sang?", "Mira sang."),
    ]


@pytest.mark.parametrize("name", ["negative", "negatives", "hard_negative"])
@pytest.mark.parametrize(
    ("cell", "texts"),
    [
        ("Sol left.", ["Sol left."]),
        (["Sol left.", "😀"], ["Sol left.", "😀"]),
        (["Sol left.", " ", ""], ["Sol left."]),
        ([], []),
        (" ", []),
        (None, []),
        (7, ["7"]),
    ],
)
def test_a_text_or_a_list_of_them_answers_not(tmp_path, name, cell, texts):
    assert read(tmp_path, row(**{name: cell})) == [pair("Who sang?", "Mira sang.", *texts)]


@pytest.mark.parametrize("kind", ["", None, " "])
def test_a_pair_may_be_of_no_kind(tmp_path, kind):
    assert read(tmp_path, row(kind=kind))[0].kind == ""


def test_columns_may_have_any_names(tmp_path):
    (tmp_path / "a.csv").write_text('asked,found\nWho?,"Mira, 👩‍🚀"\n', encoding="utf-8")
    found = read_pairs(tmp_path / "a.csv", Columns("asked", "found"))
    assert found == [pair("Who?", "Mira, 👩‍🚀")]


def test_parquet_has_lists_of_negatives(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    cells = {"query": ["a", "b"], "positive": ["c", "d"], "negatives": [["e", "f"], None]}
    parquet.write_table(pyarrow.table(cells), tmp_path / "a.parquet")
    assert read_pairs(tmp_path / "a.parquet", COLUMNS) == [pair("a", "c", "e", "f"), pair("b", "d")]


def test_equal_texts_are_kept_once(tmp_path):
    one, other = read(tmp_path, row(), row(query="Who else?"))
    assert one.positive is other.positive


@pytest.mark.filterwarnings("always::relmo.errors.TextWarning")
def test_a_row_without_one_of_the_two_is_skipped(tmp_path):
    rows = [row(), row(query=" "), {"query": "a"}, row(positive=None)]
    what = "3 rows without 'query' or 'positive' skipped: line 2, line 3, line 4"
    with pytest.warns(TextWarning, match=what):
        assert len(read(tmp_path, *rows)) == 1


@pytest.mark.parametrize(
    ("cells", "what"),
    [
        ({"query": ["a"]}, r"'query' must be a string, got \[\"a\"\]"),
        ({"negative": ["a", 7]}, "'negative' must be a string or a list of strings"),
        ({"negative": {"a": 1}}, "'negative' must be a string, got"),
        ({"kind": ["a"]}, "'kind' must be a string, got"),
        # White space for the tokenizer, and none for tables.
        ({"query": "\u2003"}, "'query' or 'positive' contains no words; delete the row"),
        ({"positive": "\xa0"}, "'query' or 'positive' contains no words; delete the row"),
    ],
)
def test_what_is_no_text_is_named(tmp_path, cells, what):
    with pytest.raises(DataError, match=rf"a\.jsonl, line 2: {what}"):
        read(tmp_path, row(), row(**cells))


def test_a_negative_without_words_is_left_out(tmp_path):
    assert read(tmp_path, row(negative=["\u2003", "a"])) == [pair("Who sang?", "Mira sang.", "a")]


def test_a_file_without_pairs_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"a\.jsonl, line 1: the file contains no pairs of"):
        read(tmp_path)
