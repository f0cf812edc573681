"""How many bits a word's spelling takes, under a letter model of a list of words.

A language model with a softmax says of a word outside its vocabulary only that it is one of those.
The rest of its bits is its spelling: the letters one after the other, each given the three before,
then the word's end. The model is estimated from the vocabulary, each word counted once, as a rare
word is spelled more like other rare words than like the most frequent. Letters after three others
are smoothed towards letters after two, and so on down to all code points alike (Witten and Bell's
way: what is new comes as often as new letters came so far), so every string has a probability. What
the words of the list itself would get is taken off, as they are not unknown: over all strings
outside the list, probabilities sum to 1.

Of words taken out of a vocabulary on purpose, and of words that a text has outside it, three
letters of context cost the fewest bits (`docs/surprisal.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]
CONTEXT = 3
"""Letters before a letter that it depends on."""
CODE_POINTS = 0x110000
EDGE = CODE_POINTS
"""Stands before the first letter and after the last."""
UNSEEN = 0
"""Number of all letters that no word of the list has."""


class _Order(NamedTuple):
    """What was counted of letters after a context of one length."""

    runs: Codes
    """(R,) contexts with their letter, sorted."""
    counts: Codes
    """(R,) how often each came."""
    contexts: Codes
    """(C,) sorted."""
    totals: Codes
    """(C,) how many letters came after each."""
    kinds: Codes
    """(C,) how many different ones."""


class LetterModel:
    """Letters one by one, each given the three before.

    Args:
        words: what it is estimated from, each counted once; they count as known.
    """

    def __init__(self, words: Sequence[str]) -> None:
        letters, starts = _letters(words)
        self._alphabet = np.unique(np.append(letters, EDGE))  # (A,): a letter's number less 1
        fits = self._base ** (CONTEXT + 1) < 2**63  # else there are 50,000 letters and more
        self._context = CONTEXT if fits else CONTEXT - 1
        self._orders: list[_Order] = []
        is_letter = _is_letter(letters, starts)
        for context, run in self._codes(letters, starts) if words else ():
            runs, counts = np.unique(run[is_letter & (context >= 0)], return_counts=True)
            contexts, first, kinds = np.unique(
                runs // self._base, return_index=True, return_counts=True
            )
            totals = np.add.reduceat(counts, first)
            self._orders.append(_Order(runs, counts, contexts, totals, kinds))
        known = np.exp2(-self._bits(words)).sum() if words else 0.0
        self._log_unknown = float(np.log2(max(1 - known, 1e-9)))

    @property
    def _base(self) -> int:
        return len(self._alphabet) + 1

    def bits(self, words: Sequence[str]) -> NDArray[np.float64]:
        """Bits of the letters of words outside the list, and of each one's end, (N,)."""
        return self._bits(words) + self._log_unknown if words else np.zeros(0)

    def _bits(self, words: Sequence[str]) -> NDArray[np.float64]:
        """Bits of any words, (N,): where those of the list are not taken off."""
        letters, starts = _letters(words)
        chance = np.full(len(letters), 1 / (CODE_POINTS + 1))  # any code point, or the end
        for order, (context, run) in zip(self._orders, self._codes(letters, starts), strict=False):
            times = _look_up(order.runs, order.counts, run)
            total = _look_up(order.contexts, order.totals, context)
            kinds = _look_up(order.contexts, order.kinds, context)
            seen = total > 0
            mixed = (times + kinds * chance) / np.maximum(total + kinds, 1)
            chance = np.where(seen, mixed, chance)
        bits = np.where(_is_letter(letters, starts), -np.log2(chance), 0.0)
        sums: NDArray[np.float64] = np.add.reduceat(bits, starts)
        return sums

    def _codes(self, letters: Codes, starts: Codes) -> Iterator[tuple[Codes, Codes]]:
        """By length of context, of each letter: a number for its context, and for both together.

        A context that would reach beyond the word's beginning is -1.
        """
        place = np.searchsorted(self._alphabet, letters).clip(max=len(self._alphabet) - 1)
        number = np.where(self._alphabet[place] == letters, place + 1, UNSEEN)
        index = np.arange(len(letters))
        start = np.repeat(starts, np.diff(np.append(starts, len(letters))))
        context = np.zeros_like(number)
        for distance in range(self._context + 1):
            if distance > 0:
                before = number[np.maximum(index - distance, 0)]
                context = context + before * self._base ** (distance - 1)
            reaches = index - distance >= start
            yield (
                np.where(reaches, context, -1),
                np.where(reaches, context * self._base + number, -1),
            )


def _letters(words: Sequence[str]) -> tuple[Codes, Codes]:
    """Code points of words between edges, one word after the other, and where each begins."""
    points = np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), np.uint32)
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    starts = np.cumsum(lengths + 2) - (lengths + 2)  # (N,)
    found = np.full(len(points) + 2 * len(words), EDGE, dtype=np.int64)
    found[np.arange(len(points)) + np.repeat(2 * np.arange(len(words)) + 1, lengths)] = points
    return found, starts


def _is_letter(letters: Codes, starts: Codes) -> NDArray[np.bool_]:
    """Which are letters or a word's end: all but the edge before it."""
    found = np.ones(len(letters), dtype=bool)
    found[starts] = False
    return found


def _look_up(keys: Codes, values: Codes, wanted: Codes) -> Codes:
    """The value of each wanted key, 0 where it is none."""
    place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], 0)
