"""Tables: which columns are read, which rows are skipped, and the formats.

Cells and bad rows are tested in sst and snli.
"""

import json

import pytest

from relmo.errors import ConfigError, TextError, TextWarning
from relmo.tasks.tables import Columns, choose_columns, filled_rows, table_rows

USUAL = {"text": ("text", "review"), "label": ("label", "sentiment")}


@pytest.fixture
def write(tmp_path):
    def write(text, name="a.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def chosen(path, text=None, label=None, needed=("text", "label")):
    return tuple(choose_columns(path, Columns(text, label), USUAL, needed))


# ── columns ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("names", "asked", "found"),
    [
        ("id,text,label", (), ("text", "label")),
        ("id,Review, Sentiment ", (), ("Review", " Sentiment ")),
        ("review,text,label", (), ("text", "label")),  # the most telling name
        ("review,text,label", ("review",), ("review", "label")),
        ("a,b,c", ("c", "a"), ("c", "a")),
        ("review,stars", (), ("review", "stars")),  # the only other one
        ("words,sentiment", (), ("words", "sentiment")),
        ("a,b", ("b",), ("b", "a")),
    ],
)
def test_columns_are_those_asked_for_or_those_with_common_names(write, names, asked, found):
    assert (
        chosen(write(f"{names}\n1,2,3\n".replace(",3", ",3" * (names.count(",") - 1))), *asked)
        == found
    )


@pytest.mark.parametrize(
    ("names", "asked", "what"),
    [
        ("a,b,c", (), "which column is the text or the label; found 'a', 'b', 'c': give --text"),
        ("text,b,c", (), "which column is the label; found .*: give --label COLUMN"),
        ("text,b,c", ("texts",), "no column 'texts'; found 'text', 'b', 'c'"),
        ("text,b,c", (None, "d"), "no column 'd'; found"),
        ("text,b,c", ("b", "b"), "text and label cannot both be the column 'b'"),
    ],
)
def test_columns_that_cannot_be_told_are_asked_for_with_those_there_are(write, names, asked, what):
    with pytest.raises(ConfigError, match=what):
        chosen(write(f"{names}\n1,2,3\n"), *asked)


def test_a_text_alone_needs_no_label(write):
    assert chosen(write("id,text,x\n1,2,3\n"), needed=["text"]) == ("text", None)


def test_a_column_that_the_first_rows_lack_is_found(write):
    rows = [{"text": "a"}, {"text": "b", "sentiment": "x"}]
    path = write("\n".join(map(json.dumps, rows)), "a.jsonl")
    assert chosen(path) == ("text", "sentiment")
    with pytest.raises(TextError, match="contains no rows"):
        chosen(write("", "b.jsonl"))


# ── rows ────────────────────────────────────────────────────────────────────────────────────


def test_a_column_without_any_value_is_named(write):
    path = write("text,verdict\na,\nb, \n")
    with pytest.raises(TextError, match="the column 'verdict' is empty in all 2 rows"):
        list(filled_rows(path, ("text", "verdict")))


def test_rows_without_a_value_are_skipped_counted_and_named(write):
    path = write("text,label\na,x\n ,x\nb,\nc,y\n" + "d,\n" * 5)
    with pytest.warns(
        TextWarning, match=r"a.csv: 7 rows without 'text' or 'label' skipped: .*"
    ) as w:
        assert [row.text("text") for row in filled_rows(path, ("text", "label"))] == ["a", "c"]
    assert str(w[0].message).endswith("skipped: line 3, line 4, line 6, line 7, line 8, …")


def test_null_nan_and_missing_keys_are_no_values(write):
    lines = ['{"text": null, "label": 1}', '{"text": "a", "label": NaN}', '{"text": "b"}']
    path = write("\n".join([*lines, '{"text": "c", "label": 0}']), "a.jsonl")
    with pytest.warns(TextWarning, match="3 rows without"):
        found = [
            (row.text("text"), row.text("label")) for row in filled_rows(path, ("text", "label"))
        ]
    assert found == [("c", "0")]


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_the_first_line_of_csv_tells_what_separates_its_cells(write, mark):
    path = write(f'id{mark}text\n1{mark}"a, b; c"\n')
    assert [row.cells for row in table_rows(path)] == [{"id": "1", "text": "a, b; c"}]


def test_parquet_is_read_like_any_other_table(tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="pip install 'relmo[parquet]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    columns = {"review": ["a", None, "c"], "stars": [1, 2, 3]}
    parquet.write_table(arrow.table(columns), path)
    assert chosen(path) == ("review", "stars")
    with pytest.warns(TextWarning, match="1 row without 'review' or 'stars' skipped: row 2"):
        rows = list(filled_rows(path, ("review", "stars")))
    assert [(row.text("review"), row.text("stars")) for row in rows] == [("a", "1"), ("c", "3")]
    path.write_bytes(b"PAR1, or so it says")
    with pytest.raises(TextError, match="cannot be read .*; is it a Parquet file"):
        list(table_rows(path))
