"""Documents are cut into passages that say where they stand."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relmo.errors import ConfigError
from relmo.search.documents import Document
from relmo.search.passages import Unit, check_unit, split

TEXT = "One two. Three four five.\n\nSix.\nSeven eight nine ten eleven twelve. Thirteen."


def texts(text: str, unit: str, max_words: int = 5) -> list[str]:
    return [passage.text for passage in split(Document("d", "d", text), unit, max_words)]


def test_a_window_holds_as_many_sentences_as_fit():
    assert texts("One. Two. Three.", "window", 2) == ["One. Two.", "Three."]
    assert texts(TEXT, "window", 100) == [TEXT]


def test_a_sentence_is_a_passage_and_a_long_one_is_cut_evenly():
    found = texts(TEXT, "sentence")
    assert found[:3] == ["One two.", "Three four five.", "Six."]
    assert found[3:] == ["Seven eight nine", "ten eleven twelve.", "Thirteen."]


def test_a_paragraph_is_a_passage_and_a_long_one_is_packed():
    text = "One two three four.\n\nFive six seven eight nine. Ten. Eleven twelve.\n"
    assert texts(text, "paragraph", 100) == ["One two three four.", text[21:-1]]
    assert texts(text, "paragraph", 6)[1:] == ["Five six seven eight nine. Ten.", "Eleven twelve."]


def test_a_line_is_a_passage_and_a_long_one_is_packed():
    assert texts(TEXT, "line", 6) == [TEXT[:25], "Six.", TEXT[32:-10], "Thirteen."]


def test_a_text_is_cut_into_paragraphs_and_a_row_stays_whole():
    text = "One two three four.\n\nFive six seven eight."
    assert texts(text, "auto", 100) == ["One two three four.", "Five six seven eight."]
    row = Document("d", "d", text, is_row=True)
    assert [passage.text for passage in split(row, "auto", 100)] == [text]


def test_lines_count_from_the_documents_own():
    lines = [p.line for p in split(Document("d", "d", TEXT, line=10), "sentence", 50)]
    assert lines == [10, 10, 12, 13, 13]


def test_a_row_stands_on_one_line():
    row = Document("d", "d", TEXT, line=7, is_row=True)
    assert {p.line for p in split(row, "sentence", 50)} == {7}


def test_text_without_spaces_is_bounded():
    assert max(map(len, texts("水" * 1000, "window", 4))) <= 4 * 32


@pytest.mark.parametrize("text", ["", " \n\n\t", "\u2028"])
def test_a_document_without_words_has_no_passages(text):
    assert texts(text, "window") == texts(text, "paragraph") == texts(text, "line") == []


@given(
    st.text(alphabet='ab .!?\n\t"水é😀', max_size=200),
    st.sampled_from(get_args(Unit)),
    st.integers(1, 8),
)
def test_passages_are_in_order_and_only_white_space_is_left_out(text, unit, max_words):
    end = 0
    for passage in split(Document("d", "d", text), unit, max_words):
        assert passage.text == text[passage.start : passage.end]
        assert passage.start >= end
        assert not text[end : passage.start].strip()
        assert passage.line == 1 + text.count("\n", 0, passage.start)
        end = passage.end
    assert not text[end:].strip()


def test_an_unknown_unit_is_a_wrong_call():
    with pytest.raises(ConfigError, match="auto, paragraph, sentence, line, window"):
        check_unit("page", 10)
    with pytest.raises(ConfigError, match="at least 1"):
        check_unit("window", 0)
