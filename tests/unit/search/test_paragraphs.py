"""Paragraphs are found in text however its lines are broken."""

import textwrap

import pytest

from relmo.search.paragraphs import split_lines, split_paragraphs

FIRST = "The bank raised its rates in May. It was the third time in a year, and savers were glad."
SECOND = "Nobody at the river noticed. The fish jumped, and the boats went by as they always had."


def found(text: str) -> list[str]:
    return [text[start:end] for start, end in split_paragraphs(text)]


def test_a_blank_line_ends_a_paragraph():
    assert found(f"{FIRST}\n \t\n{SECOND}\n") == [FIRST, SECOND]
    assert found(f"{FIRST}\r\n\r\n{SECOND}\r\n") == [FIRST, SECOND]


@pytest.mark.parametrize("width", [30, 72, 79, 130])
def test_lines_broken_to_fit_a_page_are_one_paragraph(width):
    text = FIRST + " " + SECOND
    wrapped = "\n".join(textwrap.wrap(text, width))
    assert found(wrapped) == [wrapped]
    assert found(f"{wrapped}\n\n{SECOND}") == [wrapped, SECOND]


def test_lines_that_are_paragraphs_stay_apart():
    assert found(f"{FIRST}\n{SECOND}\n{FIRST}") == [FIRST, SECOND, FIRST]
    short = ["Cats chase mice at night.", "Dogs chase cats by day.", "Nobody chases the dogs."]
    assert found("\n".join(short)) == short
    long = ["all in lower case, " * 10 + "one.", "all in lower case, " * 10 + "two."]
    assert found("\n".join(long) + "\nOnce upper case.\n") == ["\n".join(long), "Once upper case."]


def test_items_of_a_list_stay_apart():
    items = ["- one thing that is\n  broken into two lines.", "- another thing that is\n  as long."]
    assert found("\n".join(items)) == items
    numbered = ["1. the bank raised\n   its rates;", "2) nobody noticed\n   at the river."]
    assert found("\n".join(numbered)) == numbered
    numbers = "the rates that were measured went from\n3. 5 to 4. 5 and then they\nfell."
    assert found(numbers) == [numbers]
    short = ["- milk", "- eggs", FIRST]
    assert found("- milk\n- eggs\n\n" + FIRST) == short


@pytest.mark.parametrize("between", ["\n", "\n\n"])
@pytest.mark.parametrize("heading", ["# Rates.", "Rates rise in May", "Biography."])
def test_a_heading_belongs_to_what_follows(heading, between):
    text = f"{FIRST}\n\n{heading}{between}{SECOND}"
    assert found(text) == [FIRST, heading + between + SECOND]


def test_titles_one_per_line_are_not_headings_of_one_another():
    titles = ["Rates rise in May", "Fish jump", "Boats go by as they always had"]
    assert found("\n".join(titles)) == titles


def test_scripts_without_upper_case_are_joined_in_a_block():
    text = "银行在五月提高了利率。\n河边没有人注意到。"
    assert found(text) == [text]


def test_lines_are_found_without_the_space_around_them():
    text = "  one \r\n\n\ttwo"
    assert [text[start:end] for start, end in split_lines(text)] == ["one", "two"]
