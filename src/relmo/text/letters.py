"""How many bits a word's spelling takes, under a letter model of a list of words.

A language model with a softmax says of a word outside its vocabulary only that it is one of those.
To compare models of different vocabularies, the rest of its bits must be paid for, too: the letters
one after the other, each given the one before, then the word's end. The model is estimated from the
vocabulary, each word counted once, as a rare word is spelled more like other rare words than like
the most frequent. Letters after a letter are smoothed towards letters anywhere, and these towards
all code points alike (Witten and Bell's way: what is new comes as often as new letters came so
far), so every string has a probability, and all strings together have at most 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from math import log2

EDGE = ""
"""Stands before the first letter and after the last."""
CODE_POINTS = 0x110000


class LetterModel:
    """Letters one by one, each given the one before.

    Args:
        words: what it is estimated from, each counted once.
    """

    def __init__(self, words: Iterable[str]) -> None:
        spelled = [[EDGE, *word, EDGE] for word in words]
        self._pairs = Counter(pair for letters in spelled for pair in pairwise(letters))
        self._after: dict[str, tuple[int, int]] = {}  # how many letters follow one, how many kinds
        self._letters = Counter[str]()
        for (before, letter), count in self._pairs.items():
            total, kinds = self._after.get(before, (0, 0))
            self._after[before] = total + count, kinds + 1
            self._letters[letter] += count
        self._total, self._kinds = self._letters.total(), max(1, len(self._letters))

    def probability(self, letter: str, before: str) -> float:
        """Probability of a letter, or of the word's end, after another or at the beginning."""
        any_code_point = 1 / (CODE_POINTS + 1)  # or the end
        anywhere = self._letters[letter] + self._kinds * any_code_point
        anywhere /= self._total + self._kinds
        if before not in self._after:  # of a script it has not seen, as the next one may be, too
            return (anywhere + any_code_point) / 2
        total, kinds = self._after[before]
        return (self._pairs[before, letter] + kinds * anywhere) / (total + kinds)

    def bits(self, word: str) -> float:
        """Bits of a word's letters and its end."""
        steps = pairwise([EDGE, *word, EDGE])
        return -sum(log2(self.probability(letter, before)) for before, letter in steps)
