"""A letter model: over all strings outside its list probabilities sum to 1."""

from collections import Counter
from itertools import product
from math import log2

import numpy as np
import pytest

from relmo.text.letters import CODE_POINTS, LetterModel

WORDS = ["ab", "abc", "b", "abcabca", "bca"]
EDGE = "|"  # stands for itself in no word of these tests


def by_hand(words, word) -> float:
    """Bits of any string by counting, one letter at a time."""
    counts = Counter()
    for text in (EDGE + each + EDGE for each in words):
        for at in range(1, len(text)):
            counts.update((text[at - n : at], text[at]) for n in range(min(at, 3) + 1))
    bits, text = 0.0, EDGE + word + EDGE
    for at in range(1, len(text)):
        chance = 1 / (CODE_POINTS + 1)
        for n in range(min(at, 3) + 1):
            after = {k: c for (context, k), c in counts.items() if context == text[at - n : at]}
            if after:
                total, kinds = sum(after.values()), len(after)
                chance = (after.get(text[at], 0) + kinds * chance) / (total + kinds)
        bits -= log2(chance)
    return bits


def test_bits_are_these_by_hand():
    known = sum(2 ** -by_hand(WORDS, word) for word in WORDS)
    words = ["a", "ba", "cab", "abcab", "", "zz", "한국어", "\ud800"]  # not even a character
    expected = [by_hand(WORDS, word) + log2(1 - known) for word in words]
    np.testing.assert_allclose(LetterModel(WORDS).bits(words), expected, rtol=1e-12)


def test_strings_up_to_a_length_have_at_most_1_in_all():
    model = LetterModel(WORDS)
    strings = ["".join(letters) for n in range(9) for letters in product("abc", repeat=n)]
    total = (2 ** -model.bits([each for each in strings if each not in WORDS])).sum()
    assert 0.75 < total < 1


def test_a_strange_word_takes_more_bits():
    bits = LetterModel(WORDS).bits(["abca", "cba", "zz", "한국어"])
    assert (np.diff(bits) > 0).all()


def test_without_words_all_strings_of_a_length_are_alike():
    bits = LetterModel([]).bits(["a", "한", "ab"])
    np.testing.assert_allclose(bits, np.array([2, 2, 3]) * log2(CODE_POINTS + 1))
    assert LetterModel(WORDS).bits([]).shape == (0,)


def test_more_letters_than_fit_into_a_number_shorten_the_context():
    words = [chr(0x3000 + i) + chr(0x3000 + i * 7 % 60_000) for i in range(60_000)]
    model = LetterModel(words)
    assert np.isfinite(model.bits(["ab", words[3] + words[7]])).all()


def test_a_word_in_another_script_costs_about_a_uniform_guess_for_each_letter():
    model = LetterModel([f"word{i % 97}{'abcdefgh'[i % 8]}{i}" for i in range(5000)])
    shorter, longer = model.bits(["한국어", "한국어말"])
    assert longer - shorter == pytest.approx(log2(CODE_POINTS), abs=13)
