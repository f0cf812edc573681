"""Documents are split into passages; paragraphs are found however lines are broken."""

import textwrap
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relmo.search.documents import Document
from relmo.search.passages import split_lines, split_paragraphs, split_passages
from relmo.search.settings import PassageUnit

TEXT = "One two. Three four five.\n\nSix.\nSeven eight nine ten eleven twelve. Thirteen."
FIRST = "The bank raised its rates in May. It was the third time in a year, and savers were glad."
SECOND = "Nobody at the river noticed. The fish jumped, and the boats went by as they always had."


def texts(text: str, unit: str, max_words: int = 5) -> list[str]:
    return [passage.text for passage in split_passages(Document("d", "d", text), unit, max_words)]


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
    assert [passage.text for passage in split_passages(row, "auto", 100)] == [text]


def test_lines_count_from_the_documents_own():
    lines = [p.line for p in split_passages(Document("d", "d", TEXT, line=10), "sentence", 50)]
    assert lines == [10, 10, 12, 13, 13]


def test_a_row_stands_on_one_line():
    row = Document("d", "d", TEXT, line=7, is_row=True)
    assert {p.line for p in split_passages(row, "sentence", 50)} == {7}


def test_text_without_spaces_is_bounded():
    assert max(map(len, texts("水" * 1000, "window", 4))) <= 4 * 32


@pytest.mark.parametrize("text", ["", " \n\n\t", "\u2028"])
def test_a_document_without_words_has_no_passages(text):
    assert texts(text, "window") == texts(text, "paragraph") == texts(text, "line") == []


@given(
    st.text(alphabet='ab .!?\n\t"水é😀', max_size=200),
    st.sampled_from(get_args(PassageUnit)),
    st.integers(1, 8),
)
def test_passages_are_in_order_and_only_white_space_is_left_out(text, unit, max_words):
    end = 0
    for passage in split_passages(Document("d", "d", text), unit, max_words):
        assert passage.text == text[passage.start : passage.end]
        assert passage.start >= end
        assert not text[end : passage.start].strip()
        assert passage.line == 1 + text.count("\n", 0, passage.start)
        end = passage.end
    assert not text[end:].strip()


def paragraphs(text: str) -> list[str]:
    return [text[start:end] for start, end in split_paragraphs(text)]


def test_a_blank_line_ends_a_paragraph():
    assert paragraphs(f"{FIRST}\n \t\n{SECOND}\n") == [FIRST, SECOND]
    assert paragraphs(f"{FIRST}\r\n\r\n{SECOND}\r\n") == [FIRST, SECOND]


@pytest.mark.parametrize("width", [30, 72, 79, 130])
def test_lines_broken_to_fit_a_page_are_one_paragraph(width):
    text = FIRST + " " + SECOND
    wrapped = "\n".join(textwrap.wrap(text, width))
    assert paragraphs(wrapped) == [wrapped]
    assert paragraphs(f"{wrapped}\n\n{SECOND}") == [wrapped, SECOND]


def test_lines_that_are_paragraphs_stay_apart():
    assert paragraphs(f"{FIRST}\n{SECOND}\n{FIRST}") == [FIRST, SECOND, FIRST]
    short = ["Cats chase mice at night.", "Dogs chase cats by day.", "Nobody chases the dogs."]
    assert paragraphs("\n".join(short)) == short
    long = ["all in lower case, " * 10 + "one.", "all in lower case, " * 10 + "two."]
    assert paragraphs("\n".join(long) + "\nOnce upper case.\n") == [
        "\n".join(long),
        "Once upper case.",
    ]


def test_items_of_a_list_stay_apart():
    items = ["- one thing that is\n  broken into two lines.", "- another thing that is\n  as long."]
    assert paragraphs("\n".join(items)) == items
    numbered = ["1. the bank raised\n   its rates;", "2) nobody noticed\n   at the river."]
    assert paragraphs("\n".join(numbered)) == numbered
    numbers = "the rates that were measured went from\n3. 5 to 4. 5 and then they\nfell."
    assert paragraphs(numbers) == [numbers]
    short = ["- milk", "- eggs", FIRST]
    assert paragraphs("- milk\n- eggs\n\n" + FIRST) == short


@pytest.mark.parametrize("between", ["\n", "\n\n"])
@pytest.mark.parametrize("heading", ["# Rates.", "Rates rise in May", "Biography."])
def test_a_heading_belongs_to_what_follows(heading, between):
    text = f"{FIRST}\n\n{heading}{between}{SECOND}"
    assert paragraphs(text) == [FIRST, heading + between + SECOND]


def test_titles_one_per_line_are_not_headings_of_one_another():
    titles = ["Rates rise in May", "Fish jump", "Boats go by as they always had"]
    assert paragraphs("\n".join(titles)) == titles


def test_scripts_without_upper_case_are_joined_in_a_block():
    text = "银行在五月提高了利率。\n河边没有人注意到。"
    assert paragraphs(text) == [text]


def test_lines_are_found_without_the_space_around_them():
    text = "  one \r\n\n\ttwo"
    assert [text[start:end] for start, end in split_lines(text)] == ["one", "two"]
