"""Lines of columns and of pairs; tables are tested where they are read (sst, snli)."""

import pytest

from relmo.errors import TextError
from relmo.tasks.rows import sentence_lines, split_cells, tab_pairs


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


def test_a_line_of_two_texts_is_split_at_its_first_tab():
    assert list(tab_pairs(["a\tb", " ", "c \t d\te"], "one", "two")) == [
        (1, "a", "b"),
        (3, "c ", " d\te"),
    ]
    for line in ("no tab", "\tb", "a\t "):
        with pytest.raises(TextError, match="line 2: expected one, a tab and two, got '"):
            list(tab_pairs(["", line], "one", "two"))
