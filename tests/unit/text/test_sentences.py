"""Sentence splitting: its contract on any text, and each rule by example."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relmo.text.sentences import split_sentences

PIECES = (
    'a B The no. No. Mr. U.S. etc. I. J. 1. 5 . ! ? … ... .) ." ( " \' 。 ！ 」 _ \u0301 \ud800'
)
TRICKY = st.lists(st.sampled_from([*PIECES.split(), " ", "\n", "\n\n", "\r\n"]), max_size=20)


def sentences(text):
    return [text[start:end] for start, end in split_sentences(text)]


def check(*wanted):
    """Joined by spaces, the sentences must come apart again."""
    assert sentences(" ".join(wanted)) == list(wanted)


@given(text=st.text(st.characters(), max_size=60) | TRICKY.map("".join) | TRICKY.map(" ".join))
@settings(max_examples=250, deadline=None)
def test_only_white_space_stands_outside_the_sentences(text):
    end = 0
    for start, next_end in split_sentences(text):
        assert not text[end:start].strip()
        assert end <= start < next_end
        assert text[start:next_end] == text[start:next_end].strip()
        end = next_end
    assert not text[end:].strip()


@pytest.mark.parametrize("text", ["", " ", "\r\n\t\n\n"])
def test_no_text_has_no_sentences(text):
    assert split_sentences(text) == []


def test_offsets_point_into_the_text():
    assert split_sentences("  He left.  She did not. ") == [(2, 10), (12, 24)]


def test_sentences_end_after_marks():
    check(
        "He left.",
        "She stayed!",
        "Why?",
        "Who knows…",
        "Not I...",
        "It was 1990.",
        "7 people came.",
    )
    check("Где он?", "Он ушёл.", "Ça va.", "Élan.")


def test_closing_quotes_and_brackets_go_with_the_sentence():
    check('"He left."', "(She stayed.)", "“Why?”", "_So it is._", "[It is.]", "‘Go.’", "End")


def test_lower_case_does_not_begin_a_sentence():
    check('"Why?" he asked.', "Well... perhaps.", "Yahoo! is a firm.")
    check(
        "He came (see below). (and so on)",
    )


def test_titles_never_end_a_sentence():
    check("Mr. Hill met Dr. No and St. John vs. Prof. Ash.", "They left.")


def test_abbreviations_end_a_sentence_only_before_a_common_first_word():
    check("The U.S. House met at 5 p.m. Friday.", "He left the U.S.", "The end.")
    check("Smith & Co. & Sons of Apple Inc. Cupertino.", "Pens, ink, etc.", "He wrote.")


def test_initials_do_not_end_a_sentence():
    check("J. R. R. Tolkien and I. M. Pei met George W. Bush.", "So do I.", "Alice did.")
    check("He took vitamin C.", "The pain left.")


def test_numbers_after_abbreviations_stay_with_them():
    check("See No. 5 and p. 7 of Jan. 5, vol. 2.", "He said no.", "It was Jan.", "He left.")


def test_list_numbers_stay_with_their_sentence():
    check("1. Go home.", "2. Sleep.", "A. Rest.", "IV. Wake.")


def test_periods_inside_numbers_and_addresses_are_not_ends():
    check("Pi is 3.14 or so.", "See http://a.b/c.d.", "It is Amazon.com.")


def test_wide_marks_need_no_space():
    assert sentences("元気？はい！「行く。」終") == ["元気？", "はい！", "「行く。」", "終"]
    assert sentences("何！？ そう。") == ["何！？", "そう。"]


def test_scripts_without_case_are_split():
    check("안녕하세요.", "반갑습니다.", "끝")
    check("यह है।", "वह है।")
    check("ما هذا؟", "كتاب.")


def test_blank_line_ends_a_sentence_and_newline_does_not():
    assert sentences("A title\n\nit goes\non. Yes") == ["A title", "it goes\non.", "Yes"]
    assert sentences("a\r\n \r\nb") == ["a", "b"]


@pytest.mark.parametrize(
    "part", [".", ". ", "Mr. ", "J. ", "a.", '."', "؟", "。", "\n ", "…)", "1. "]
)
def test_time_grows_with_length_only(part):
    text = part * (100_000 // len(part)) + "x"
    started = time.process_time()
    split_sentences(text)
    assert time.process_time() - started < 2
