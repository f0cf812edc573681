"""Lexical search: text -> terms, and BM25, the score of a passage for a term.

Terms are words in lower case, without stop words, stemmed. The stemmers are Snowball's (PyStemmer,
in the extra `search`); language "none" leaves words as they are.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from relmo.errors import ConfigError, need_extra

K1, B = 1.5, 0.75
"""BM25: how fast repetitions of a term saturate, and how much long passages are penalized. k1 was
chosen among 0.9, 1.2, 1.5 and 2 on half of Cranfield's queries."""
MAX_TERM_LENGTH = 64
"""Characters of a term; it is a key in a database table."""
STOP_WORDS = {
    "english": (
        "a an and are as at be but by for from had has have he her his how i if in into is it its "
        "no not of on or our she so such than that the their them then there these they this to "
        "was we were what when where which who why will with would you your"
    )
}
"""Words too common to distinguish passages; languages without a list keep all words."""
_WORD = re.compile(r"\w+")


@lru_cache(maxsize=8)
def make_analyzer(language: str) -> Callable[[str], list[str]]:
    """The function from a text to its terms in order; language is one of Snowball's, or "none"."""
    stop_words = frozenset(STOP_WORDS.get(language, "").split())
    stem = _make_stemmer(language)

    def analyze(text: str) -> list[str]:
        folded = unicodedata.normalize("NFKC", text).lower()
        return stem([w[:MAX_TERM_LENGTH] for w in _WORD.findall(folded) if w not in stop_words])

    return analyze


def _make_stemmer(language: str) -> Callable[[list[str]], list[str]]:
    if language == "none":
        return lambda words: words
    need_extra("search")
    import Stemmer

    if language not in Stemmer.algorithms():
        known = ", ".join(sorted(Stemmer.algorithms()))
        raise ConfigError(f"no stemmer for {language!r}; choose none or one of {known}")
    stemmer, lock = Stemmer.Stemmer(language), Lock()

    def stem(words: list[str]) -> list[str]:
        with lock:  # PyStemmer is not thread-safe
            stems: list[str] = stemmer.stemWords(words)
        return stems

    return stem


def bm25(
    frequency: NDArray[np.float64], length: NDArray[np.float64], mean_length: float, total: int
) -> NDArray[np.float64]:
    """Score that one term adds to each of the n passages that contain it, (n,).

    Args:
        frequency: occurrences of the term in the passage, (n,).
        length: number of terms of the passage, (n,).
        mean_length: mean over all passages.
        total: number of all passages.
    """
    count = len(frequency)
    rarity = math.log(1 + (total - count + 0.5) / (count + 0.5))
    saturation = K1 * (1 - B + B * length / mean_length)
    return np.asarray(rarity * frequency * (K1 + 1) / (frequency + saturation))
