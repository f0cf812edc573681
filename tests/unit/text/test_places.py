"""Places of a word: found by tokens, with offsets, in the case given if the sentence has it."""

import numpy as np
import pytest

from relmo.text.places import Place, WordComparison, find_places
from relmo.text.tokenize import RelmoTokenizer


def places_of(word, *sentences):
    found = find_places(word, sentences, RelmoTokenizer())
    return [(p.sentence, p.position, p.text[p.start : p.end]) for _, own in found for p in own]


def test_each_occurrence_is_a_place():
    assert places_of("bank", "A bank, a bank.", "none", "bank") == [
        (0, 1, "bank"), (0, 4, "bank"), (2, 0, "bank"),
    ]  # fmt: skip


def test_a_part_of_a_longer_word_is_none():
    assert places_of("bank", "Banking banks embank") == []


def test_another_case_counts_where_the_sentence_has_no_other():
    assert places_of("us", "US or us", "The US") == [(0, 2, "us"), (1, 1, "US")]
    assert places_of("BANK", "a Bank") == [(0, 1, "Bank")]


def test_a_word_of_several_tokens_is_one_place():
    assert places_of("well-known", "A well-known bank") == [(0, 1, "well-known")]
    assert places_of("don't", "I don't know") == [(0, 1, "don't")]


def test_token_lists_have_the_offsets_of_their_words_joined_by_spaces():
    assert places_of("well-known", ["A", "well-known", "bank"]) == [(0, 1, "well-known")]
    assert places_of("bank", ["", "bank"]) == [(0, 1, "bank")]


@pytest.mark.parametrize("word", ["", " "])
def test_no_word_is_nowhere(word):
    assert places_of(word, "a b", "") == []


def test_a_long_sentence_is_shown_around_the_word():
    text = "before " * 30 + "bank" + " after" * 30
    shown = str(Place(0, 30, 1, text, 210, 214))
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert " [bank] after" in shown
    assert len(shown) < 100


def test_a_comparison_prints_its_places_and_cosines():
    places = (Place(0, 1, 1, "A bank", 2, 6), Place(2, 1, 1, "The\nbank", 4, 8))
    cosines = np.array([[1, 0.25], [0.25, 1]], np.float32)
    found = WordComparison("bank", places, cosines, "sense vectors", without=(1,))
    assert repr(found) == str(found)
    assert str(found).splitlines() == [
        "'bank' at 2 places, cosines of sense vectors",
        "  0  A [bank]",
        "  1  The [bank]",
        "         0      1",
        "  0   1.00   0.25",
        "  1   0.25   1.00",
        "not in sentence 1 (counted from 0)",
    ]
