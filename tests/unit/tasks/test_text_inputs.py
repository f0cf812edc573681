"""What relmo predict reads: inputs by line, two texts by a tab, documents by blank lines."""

import pytest

from relmo.errors import TextError
from relmo.tasks.registry import find_task
from relmo.tasks.text_inputs import TextInput, _documents, _lines


def numbered(*lines):
    return enumerate(lines, 1)


def test_a_line_is_an_input_blank_or_not():
    found = list(_lines(find_task("ner"), numbered("Ada\tleft .", " ", ""), "-"))
    assert found == [TextInput(1, ("Ada\tleft .",)), TextInput(2, ("",)), TextInput(3, ("",))]


def test_a_tab_separates_two_texts():
    found = list(_lines(find_task("snli"), numbered("a\tb", " ", "c \t d\te"), "-"))
    assert [each.texts for each in found] == [("a", "b"), ("", ""), ("c ", " d\te")]


def test_one_of_two_texts_may_be_empty():
    found = list(_lines(find_task("snli"), numbered("a\t", "\tb", "a\t \t"), "-"))
    assert [each.texts for each in found] == [("a", ""), ("", "b"), ("a", " \t")]


def test_a_line_that_is_no_pair_is_named():
    wanted = "pairs.txt, line 2: expected a premise, a tab and a hypothesis, got 'no tab'"
    with pytest.raises(TextError, match=wanted):
        list(_lines(find_task("snli"), numbered("a\tb", "no tab"), "pairs.txt"))


def test_blank_lines_end_a_document():
    found = list(_documents(numbered("", "One.", "Two.", "", "  ", "Three.", "")))
    assert found == [TextInput(2, ("One.\nTwo.",)), TextInput(6, ("Three.",))]
    assert list(_documents(numbered())) == []
