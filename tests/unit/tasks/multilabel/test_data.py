"""Tables -> texts with any number of labels; bad cells named by file and line."""

import json

import pytest

from relmo.errors import DataError, TextWarning
from relmo.tasks.multilabel.data import MultilabelText, read_table


def read(tmp_path, *cells, name="a.jsonl"):
    """The labels of rows with these cells."""
    path = tmp_path / name
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        table = pyarrow.table({"text": ["a b"] * len(cells), "labels": list(cells)})
        parquet.write_table(table, path)
    else:
        rows = [json.dumps({"text": "a b", "labels": cell}) for cell in cells]
        if path.suffix == ".tsv":
            rows = ["text\tlabels", *(f"a b\t{cell}" for cell in cells)]
        path.write_text("\n".join(rows), encoding="utf-8")
    found = read_table(path)
    assert all(example.words == ("a", "b") for example in found)
    return [example.labels for example in found]


def test_a_row_becomes_a_text_and_its_labels(tmp_path):
    (tmp_path / "a.csv").write_text('labels,text\n"b, a",It shines\n')
    assert read_table(tmp_path / "a.csv") == [MultilabelText(("It", "shines"), ("a", "b"))]


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_a_list_is_taken_as_it_is(tmp_path, name):
    found = read(tmp_path, ["joy", "fear"], [], [" a, b; c|d ", "joy", "joy"], name=name)
    assert found == [("fear", "joy"), (), ("a, b; c|d", "joy")]


def test_labels_may_be_numbers_and_truth_values(tmp_path):
    assert read(tmp_path, [3, True, 2.5], 7) == [("2.5", "3", "true"), ("7",)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.tsv", "a.parquet"])
@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("joy", ("joy",)),
        ("joy,fear", ("fear", "joy")),
        (" joy ; very sad;", ("joy", "very sad")),
        ("joy | fear|joy", ("fear", "joy")),
        ("['joy', \"don't know\"]", ("don't know", "joy")),
        ("'tis, o'", ("'tis", "o'")),
        ("2,3", ("2", "3")),
        ("שלום, 😀", ("שלום", "😀")),
        ("[]", ()),
        ("[ ]", ()),
        ("[joy", ("[joy",)),
    ],
)
def test_a_string_is_split_and_brackets_and_quotes_are_dropped(tmp_path, name, cell, labels):
    assert read(tmp_path, cell, name=name) == [labels]


@pytest.mark.filterwarnings("always::relmo.errors.TextWarning")
def test_an_empty_cell_is_skipped_but_an_empty_list_is_not(tmp_path):
    with pytest.warns(TextWarning, match=r"2 rows without 'text' or 'labels' skipped: line 2, li"):
        assert read(tmp_path, [], " ", None) == [()]


@pytest.mark.parametrize(
    ("cell", "what"),
    [
        (["joy", ""], "'labels' contains an empty label; remove it from the list"),
        ([None], "'labels' contains an empty label"),
        ([["joy"]], r"'labels' must be a string, got \[\"joy\"\]"),
        ({"joy": 1}, "'labels' must be a string, got"),
        (" ; ,", r"'labels' contains no labels, got '; ,'; write \[\] for none"),
        ("['']", r"'labels' contains no labels, got \"\[''\]\""),
    ],
)
def test_what_is_no_label_is_named(tmp_path, cell, what):
    with pytest.raises(DataError, match=rf"a\.jsonl, line 2: {what}"):
        read(tmp_path, "joy", cell)
