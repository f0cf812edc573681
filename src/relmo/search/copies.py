"""Near-copies among hits: a passage that says again what a better hit says is counted, not shown.

Two texts are near-copies if they have the same words, or if both are long and share most of their
word 3-grams (Jaccard similarity). Texts that differ in a number never are: rows of a table, or the
same notice of another year. Only texts of hits are compared, so nothing is stored for it.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from relmo.search.store import Hit

LEAST_WORDS = 20
"""Shorter texts are near-copies only if their words are the same."""
SIMILARITY = 0.8
"""Share of the 3-grams of two texts that near-copies have in common."""
MAX_LOOKED = 5000
"""Passages among which more distinct hits are looked for."""
_NUMBER = re.compile(r"(?:(?<!\w)[-+])?\d+(?:[.,:/]\d+)*%?")
_PUNCTUATION = ".,;:!?…\"'“”„‘’«»‹›()[]{}<>*_~|/\\—–-"
"""Stripped from the ends of words; signs that tell words apart (C#, C++, 5 %) are none of it."""

Gram = tuple[str, str, str]


def distinct_hits(hits: Iterable[Hit], count: int) -> list[Hit]:
    """The first hits that are no near-copies of a better one; no more are read than needed.

    Args:
        hits: best first.
        count: maximum number of hits.
    """
    found = _Distinct()
    for hit in hits:
        found.add(hit)
        if len(found) >= count:
            break
    return found.hits()


class _Distinct:
    """Hits, added best first, and the number of near-copies of each."""

    def __init__(self) -> None:
        self._hits: list[Hit] = []
        self._copies: list[int] = []
        self._grams: list[int] = []
        """The number of 3-grams of each hit."""
        self._same: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
        """Words and numbers -> the first hit that has them."""
        self._with: defaultdict[tuple[Gram, tuple[str, ...]], list[int]] = defaultdict(list)
        """3-gram, and the numbers of the text -> the hits that have both."""

    def __len__(self) -> int:
        return len(self._hits)

    def add(self, hit: Hit) -> None:
        """Keep a hit, or count it as a near-copy."""
        words, numbers = read_words(hit.text), read_numbers(hit.text)
        grams = _grams(words) if len(words) >= LEAST_WORDS else set()
        original = self._same.get((words, numbers))
        if original is None:
            original = self._most_similar(grams, numbers)
        if original is not None:
            self._copies[original] += 1
            return
        number = len(self._hits)
        self._hits.append(hit)
        self._copies.append(0)
        self._grams.append(len(grams))
        self._same[words, numbers] = number
        for gram in grams:
            self._with[gram, numbers].append(number)

    def _most_similar(self, grams: set[Gram], numbers: tuple[str, ...]) -> int | None:
        """The hit that a text with these 3-grams is a near-copy of, if there is one."""
        shared = Counter(each for gram in grams for each in self._with.get((gram, numbers), ()))
        for number, count in shared.most_common():
            if count >= SIMILARITY * (len(grams) + self._grams[number] - count):
                return number
        return None

    def hits(self) -> list[Hit]:
        """The hits that were kept, with the numbers of their near-copies."""
        pairs = zip(self._hits, self._copies, strict=True)
        return [dataclasses.replace(hit, copies=count) for hit, count in pairs]


def _grams(words: tuple[str, ...]) -> set[Gram]:
    return set(zip(words, words[1:], words[2:], strict=False))


def read_words(text: str) -> tuple[str, ...]:
    """The words that two texts are compared by; of a text without any, the text itself."""
    words = (word.strip(_PUNCTUATION) for word in text.casefold().split())
    return tuple(word for word in words if word) or (text,)


def read_numbers(text: str) -> tuple[str, ...]:
    """The numbers in a text as they are written, with their signs, in order."""
    return tuple(_NUMBER.findall(text.replace("−", "-")))
