"""Text -> the terms that a lexical search compares: lower case, no stop words, stemmed.

The stemmers are Snowball's (PyStemmer, in the extra `search`); "none" leaves words as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from threading import Lock

from relmo.errors import ConfigError, need_extra

_WORD = re.compile(r"\w+")
_LONGEST = 64  # characters of a term: a key in a table
STOP_WORDS = {
    "english": (
        "a an and are as at be but by for from had has have he her his how i if in into is it its "
        "no not of on or our she so such than that the their them then there these they this to "
        "was we were what when where which who why will with would you your"
    )
}
"""Words too common to tell passages apart; languages without a list keep all words."""


@lru_cache(maxsize=8)
def make_terms(language: str) -> Callable[[str], list[str]]:
    """The function from a text to its terms, in order.

    Args:
        language: a language of Snowball's, as "english", or "none".
    """
    stop = frozenset(STOP_WORDS.get(language, "").split())
    stem = _stemmer(language)

    def terms(text: str) -> list[str]:
        folded = unicodedata.normalize("NFKC", text).lower()
        return stem([w[:_LONGEST] for w in _WORD.findall(folded) if w not in stop])

    return terms


def _stemmer(language: str) -> Callable[[list[str]], list[str]]:
    if language == "none":
        return lambda words: words
    need_extra("search")
    import Stemmer

    if language not in Stemmer.algorithms():
        known = ", ".join(sorted(Stemmer.algorithms()))
        raise ConfigError(f"no stemmer for {language!r}; choose none or one of {known}")
    stemmer, lock = Stemmer.Stemmer(language), Lock()

    def stem(words: list[str]) -> list[str]:
        with lock:  # a stemmer serves one thread at a time
            stems: list[str] = stemmer.stemWords(words)
        return stems

    return stem
