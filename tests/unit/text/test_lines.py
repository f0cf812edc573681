"""Which lines of a text belong together."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relmo.text.lines import blocks, split_lines

STORY = (
    "In May, Ada Lovelace wrote to a friend in London that the machine was nearly done, and that "
    "nobody in Paris or New York had one. Her letter took three weeks to arrive in the city."
)


def pieces(text):
    return [text[start:end] for start, end in blocks(text)]


def test_lines_without_a_common_sentence_stand_alone():
    assert pieces("Markets\nLondon\nParis\nNew York\n") == [
        "Markets", "London", "Paris", "New York",
    ]  # fmt: skip
    assert pieces("WASHINGTON\nSouth Korea's president left.") == [
        "WASHINGTON",
        "South Korea's president left.",
    ]


def test_a_line_in_lower_case_continues_the_one_before():
    assert pieces("It rained in the\nmorning.") == ["It rained in the\nmorning."]
    assert pieces("She moved to\n서울에 있는\nhouse") == ["She moved to\n서울에 있는\nhouse"]


@pytest.mark.parametrize("width", [40, 50, 60, 72, 100])
def test_wrapped_text_is_one_piece_whatever_its_lines_start_with(width):
    wrapped = textwrap.fill(STORY, width)
    assert pieces(f"{wrapped}\n\n{wrapped}\n") == [wrapped, wrapped]


def test_items_of_a_list_are_apart():
    assert pieces("To buy:\n- bread\n- milk and\nhoney\n2. tea") == [
        "To buy:", "- bread", "- milk and\nhoney", "2. tea",
    ]  # fmt: skip


@given(st.text(alphabet="aB -1.\n\r\t가", max_size=60))
def test_nothing_but_white_space_is_left_out(text):
    assert "".join("".join(each.split()) for each in pieces(text)) == "".join(text.split())
    assert all(each == each.strip() for each in pieces(text))


def test_lines_are_stripped_and_blank_ones_left_out():
    text = "  one \n\n\ttwo\r\n"
    assert [text[start:end] for start, end in split_lines(text)] == ["one", "two"]
