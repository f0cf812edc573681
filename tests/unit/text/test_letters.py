"""A letter model: every string has a probability, all together at most 1."""

from itertools import product
from math import log2

import pytest

from relmo.text.letters import CODE_POINTS, EDGE, LetterModel

WORDS = ["ab", "abc", "b"]
OTHERS = CODE_POINTS - 3
"""Code points that no word has."""


@pytest.mark.parametrize("before", [EDGE, "a", "c", "한"])
def test_the_letters_that_may_follow_have_a_probability_of_1_in_all(before):
    model = LetterModel(WORDS)
    known = sum(model.probability(letter, before) for letter in (EDGE, "a", "b", "c"))
    assert known + OTHERS * model.probability("z", before) == pytest.approx(1)


def test_strings_up_to_a_length_have_at_most_1_in_all():
    model = LetterModel(WORDS)
    strings = ("".join(letters) for n in range(7) for letters in product("abc", repeat=n))
    total = sum(2 ** -model.bits(string) for string in strings)
    assert 0.5 < total < 1


def test_bits_are_these_by_hand():
    model = LetterModel(["ab", "b"])  # after a: b; after b: the end twice; at first: a, b
    new = 3 / (CODE_POINTS + 1)  # three kinds were seen
    anywhere = {"b": (2 + new) / (5 + 3), EDGE: (2 + new) / (5 + 3)}
    first = (1 + 2 * anywhere["b"]) / (2 + 2)
    last = (2 + 1 * anywhere[EDGE]) / (2 + 1)
    assert model.bits("b") == pytest.approx(-log2(first) - log2(last))


def test_any_string_has_bits_and_a_strange_one_more():
    model = LetterModel(WORDS)
    assert model.bits("ab") < model.bits("ba") < model.bits("zz") < model.bits("한국어")
    assert model.bits("") > 0
    assert model.bits("\ud800") > 0  # not even a character
    assert LetterModel([]).bits("a") == pytest.approx(2 * log2(CODE_POINTS + 1))


def test_a_word_in_another_script_costs_about_a_uniform_guess_for_each_letter():
    model = LetterModel(f"word{i % 97}{'abcdefgh'[i % 8]}" for i in range(50_000))
    longer = model.bits("한국어말") - model.bits("한국어")
    assert longer < log2(CODE_POINTS) + 1.01
