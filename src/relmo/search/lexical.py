"""Lexical search: text -> terms, BM25, and hybrid search, which combines BM25 with vectors.

Terms are words in lower case, without stop words, stemmed. The stemmers are Snowball's (PyStemmer,
in the extra `search`); language "none" leaves words as they are.

In hybrid search BM25 finds passages, and these refine the query vector (relevance feedback):

    w           BM25 of a passage / the highest BM25
    query'      normalize(query + feedback * normalize(sum of w ^ trust * vector over the `first`))
    evenness    mean w of the second to the sixth passage: near 1 if many match equally well
    score       w ^ sharpness + share * evenness * cosine with query'

The vector of a short query says little; passages that contain its words say more. If one passage
matches the words far better than all others, it is probably the one wanted, and vectors add little.
The parameters were chosen by scripts/choose_pooling.py on half of Cranfield's queries, which have
many relevant documents each, and on questions of SQuAD's training part, which have one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relmo.config import Count, NonNegative, Settings
from relmo.errors import ConfigError, need_extra
from relmo.runtime.pooling import normalize
from relmo.search.filters import Conditions
from relmo.search.store import SCORE_DECIMALS, Scored, Store, Terms, check_width, rank
from relmo.types import Vectors

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
MAX_MARKS = 30
"""Combining marks in a row that are read, as in Unicode's stream-safe text format."""
_WORD = re.compile(r"\w+")


@lru_cache(maxsize=8)
def make_analyzer(language: str) -> Callable[[str], list[str]]:
    """The function from a text to its terms in order; language is one of Snowball's, or "none"."""
    common, stem = stop_words(language), make_stemmer(language)

    def analyze(text: str) -> list[str]:
        folded = to_nfkc(text).lower()
        words = [w[:MAX_TERM_LENGTH] for w in _WORD.findall(folded) if w not in common]
        return stem(words)

    return analyze


def stop_words(language: str) -> frozenset[str]:
    """Words of a language, in lower case, that are too common to be terms."""
    return frozenset(STOP_WORDS.get(language, "").split())


def make_stemmer(language: str, cached: int = 10_000) -> Callable[[list[str]], list[str]]:
    """The function from words to their stems, which keeps some of them; threads may share it."""
    if language == "none":
        return list
    need_extra("search")
    import Stemmer

    if language not in Stemmer.algorithms():
        known = ", ".join(sorted(Stemmer.algorithms()))
        raise ConfigError(f"no stemmer for {language!r}; choose none or one of {known}")
    stemmer, lock = Stemmer.Stemmer(language, cached), Lock()

    def stem(words: list[str]) -> list[str]:
        with lock:  # PyStemmer is not thread-safe
            found: list[str] = stemmer.stemWords(words)
        return found

    return stem


def to_nfkc(text: str) -> str:
    """Text in NFKC, in linear time: sorting the marks of one character takes the square of them."""
    if not text.isascii() and not _marks().isdisjoint(text):
        text = _too_many_marks().sub(lambda run: run[0][:MAX_MARKS], text)
    return unicodedata.normalize("NFKC", text)


@lru_cache(maxsize=1)
def _marks() -> frozenset[str]:
    """Characters that are combining marks, or decompose into some."""
    return frozenset(
        chr(code) for code in range(0x300, 0x20000)  # none is beyond
        if unicodedata.combining(unicodedata.normalize("NFKD", chr(code))[0])
    )  # fmt: skip


@lru_cache(maxsize=1)
def _too_many_marks() -> re.Pattern[str]:
    return re.compile(f"[{''.join(sorted(_marks()))}]{{{MAX_MARKS + 1},}}")


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
    saturation = K1 * (1 - B + B * length / mean_length)
    return np.asarray(
        rarity(len(frequency), total) * frequency * (K1 + 1) / (frequency + saturation)
    )


def rarity(passages: float | NDArray[np.float64], total: int) -> Any:  # noqa: ANN401 - as given
    """What one occurrence of a term in so many passages weighs."""
    return np.log(1 + (total - passages + 0.5) / (passages + 0.5))


# ── hybrid search ────────────────────────────────────────────────────────────────────────────────

CANDIDATES = 200
"""Passages that BM25 and vectors each contribute."""
RIVALS = 5
"""Passages after the best whose scores show how far it stands out."""
READ_CLOSELY = 20
"""Passages that are read word by word, where the index's model can do that."""
MIN_EVENNESS = 0.1
"""So that passages without the query's words are still ordered by their vectors."""


Closer = Callable[[Sequence[str]], Vectors]
"""Texts -> for each the share of the query's words that have a near word in it, (n,)."""


@dataclass(frozen=True, kw_only=True)
class Fusion(Settings):
    """How BM25 scores and vectors are combined; by default, with the vectors of an ELMo."""

    first: Count = 5
    feedback: NonNegative = 2.0
    trust: NonNegative = 2.0
    share: NonNegative = 1.5
    sharpness: NonNegative = 3.0
    closeness: NonNegative = 0.5
    """Weight of the share of the query's words that a passage has a near word for."""

    def refine(self, query: Vectors, bm25: Vectors, vectors: Vectors) -> Vectors:
        """Move the query (D,) towards the vectors (n, D) that have the highest BM25 (n,).

        The query has unit length or is zero; passages are in order of their scores.
        """
        weights = (bm25[: self.first] / bm25[0]) ** self.trust  # (first,)
        towards = normalize(weights @ vectors[: self.first])
        return normalize(query + self.feedback * towards)

    def combine(self, bm25: Vectors, cosines: Vectors) -> Vectors:
        """One score per passage, (n,), from its BM25 and its cosine with the query vector.

        BM25 is 0 for passages without a term of the query, and above 0 for at least one.
        """
        rivals = np.sort(bm25 / bm25.max())[::-1][1 : RIVALS + 1]
        evenness = max(float(rivals.sum()) / RIVALS, MIN_EVENNESS)
        return np.asarray(self.from_words(bm25) + self.share * evenness * cosines)

    def from_words(self, bm25: Vectors) -> Vectors:
        """The part of each combined score that comes from words, (n,)."""
        return np.asarray((bm25 / bm25.max()) ** self.sharpness)


def ranked(
    store: Store,
    query: Vectors | None,
    terms: Terms,
    count: int,
    where: Conditions = (),
    closer: Closer | None = None,
    fusion: Fusion | None = None,
) -> list[Scored]:
    """Passages by what is known of a query, best first: its vector (D,), its terms, or both.

    A query of stop words only has no terms, and one in an unknown script no vector. Where both are
    known, `closer` reads the first passages for it.
    """
    if query is None:
        found = store.matching(terms, count, where) if terms else []
        return [each._replace(from_words=each.score) for each in found]
    if terms:
        return hybrid_search(store, query, terms, count, where, closer, fusion)
    return store.nearest(query, count, where) if query.any() else []


def hybrid_search(
    store: Store,
    query: Vectors,
    terms: Terms,
    count: int,
    where: Conditions = (),
    closer: Closer | None = None,
    fusion: Fusion | None = None,
) -> list[Scored]:
    """Passages by terms and vector together, best first; `closer` reads the first ones."""
    fusion = fusion or Fusion()
    candidates = max(count, CANDIDATES)
    lexical = store.matching(terms, candidates, where)
    if not lexical:
        return store.nearest(query, count, where) if query.any() else []
    first = lexical[: fusion.first]
    scores = np.array([each.score for each in first])
    vectors = store.vectors([each.passage for each in first])
    query = fusion.refine(query, scores, check_width(store.name, vectors, len(query)))
    nearest = store.nearest(query, candidates, where)
    numbers = sorted({each.passage for each in (*lexical, *nearest)})
    score_of = {each.passage: each.score for each in lexical}
    scores = np.array([score_of.get(number, 0.0) for number in numbers])
    combined = fusion.combine(scores, store.vectors(numbers) @ query)
    parts = np.round(fusion.from_words(scores), SCORE_DECIMALS).tolist()
    part_of = dict(zip(numbers, parts, strict=True))
    ranking = rank(np.array(numbers), combined, max(count, READ_CLOSELY if closer else 0))
    if closer is not None:
        ranking = _read_closely(store, ranking, fusion.closeness, closer)[:count]
    return [each._replace(from_words=part_of[each.passage]) for each in ranking]


def _read_closely(
    store: Store, ranking: list[Scored], weight: float, closer: Closer
) -> list[Scored]:
    """The ranking with what a closer reading of the first passages adds to their scores."""
    first, others = ranking[:READ_CLOSELY], ranking[READ_CLOSELY:]
    added = closer(store.texts([each.passage for each in first]))  # (n,)
    scores = np.array([each.score for each in first]) + weight * added
    return [*rank(np.array([each.passage for each in first]), scores, len(first)), *others]
