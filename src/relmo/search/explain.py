"""Why a hit was found: its best sentence, the words of the query in it, and the parts of its score.

    best sentence    the highest sum of
                         the share of the query's words that it contains, rarer words counting more,
                         the cosine of its vector with the query's
    words            those whose term, as the index's analyzer makes it, is one of the query's
    parts            what words and what vectors added to the score, as shares of both

A search pays nothing for this: sentences are read by the model only when hits are explained, and
only where there is a choice between several.
"""

from __future__ import annotations

import dataclasses
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relmo.search.models import AnyEncoder
from relmo.search.store import Hit
from relmo.text.sentences import split_sentences

MAX_SENTENCES = 20
"""Sentences of one hit that are read: those with the rarest words of the query."""
MAX_READ = 200
"""Sentences of all hits that are read; of many hits fewer each."""
MAX_CHARACTERS = 300
"""Of a sentence that are read: its beginning."""
SHARE_DECIMALS = 4
_MARKS = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_WORD = re.compile(rf"\w[\w{_MARKS}]*")
"""A word with its combining marks, which the analyzer composes with their letters."""

Span = tuple[int, int]
Analyzer = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a hit was found; spans are characters of the hit's text."""

    sentence: Span
    """The sentence that matches best."""
    words: tuple[Span, ...]
    """Words that match a word of the query, in order."""
    by_words: float
    """Share of the score that comes from words."""
    by_meaning: float
    """Share of the score that comes from vectors; both sum to 1."""

    def to_dict(self) -> dict[str, Any]:
        """The explanation as plain values, ready for JSON."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class _Match:
    """A word of a text, and the terms of the query that it has."""

    span: Span
    terms: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The sentences of a hit among which the best is chosen."""

    matches: list[_Match]
    sentences: list[Span]
    shares: list[float]
    """Of the query's words, weighted by rarity, that each sentence contains."""


def explain_hits(
    encoder: AnyEncoder, analyze: Analyzer, query: str, hits: Sequence[Hit]
) -> list[Explanation]:
    """Explain hits of a query, in order.

    Args:
        encoder: of the index.
        analyze: text -> terms, of the index.
        query: as it was searched for.
        hits: as they were found.
    """
    weights = term_weights(encoder, analyze, query)
    most = min(MAX_SENTENCES, max(1, MAX_READ // max(1, len(hits))))
    found = [_candidates(hit.text, weights, analyze, most) for hit in hits]
    pairs = list(zip(hits, found, strict=True))
    cosine_of = _read(encoder, query, pairs)
    return [_explain(hit, each, cosine_of) for hit, each in pairs]


def term_weights(encoder: AnyEncoder, analyze: Analyzer, text: str) -> dict[str, float]:
    """Term -> weight of its rarest word in the text, as the encoder weighs words."""
    weights: dict[str, float] = {}
    for word in _WORD.findall(text):
        (weight,) = encoder.weights.of([word]).tolist()
        for term in analyze(word):
            weights[term] = max(weight, weights.get(term, 0.0))
    return weights


def _candidates(text: str, weights: dict[str, float], analyze: Analyzer, most: int) -> _Candidates:
    matches = _matches(text, weights, analyze)
    sentences = split_sentences(text) or [(0, len(text))]
    shares = _shares(matches, sentences, weights)
    if len(sentences) > most:
        best = sorted(range(len(sentences)), key=lambda i: -shares[i])[:most]  # ties in order
        sentences, shares = [sentences[i] for i in sorted(best)], [shares[i] for i in sorted(best)]
    return _Candidates(matches, sentences, shares)


def _matches(text: str, weights: dict[str, float], analyze: Analyzer) -> list[_Match]:
    """The words of a text that have a term of the query."""
    terms_of: dict[str, frozenset[str]] = {}
    found: list[_Match] = []
    for word in _WORD.finditer(text) if weights else ():
        if word[0] not in terms_of:
            terms_of[word[0]] = frozenset(analyze(word[0])) & weights.keys()
        if terms := terms_of[word[0]]:
            found.append(_Match(word.span(), terms))
    return found


def _shares(
    matches: Sequence[_Match], sentences: Sequence[Span], weights: dict[str, float]
) -> list[float]:
    """How much of the query's words each sentence contains, rarer words counting more."""
    starts = [start for start, _ in sentences]
    terms: list[set[str]] = [set() for _ in sentences]
    for match in matches:
        terms[bisect_right(starts, match.span[0]) - 1] |= match.terms
    total = sum(weights.values()) or 1.0
    return [sum(weights[term] for term in found) / total for found in terms]


def _read(
    encoder: AnyEncoder, query: str, pairs: Sequence[tuple[Hit, _Candidates]]
) -> dict[str, float]:
    """Sentence -> cosine with the query, of those sentences whose cosine matters."""
    texts = dict.fromkeys(
        _readable(hit.text, span)
        for hit, found in pairs
        if len(found.sentences) > 1 or hit.from_words is None
        for span in found.sentences
    )
    if not texts:
        return {}
    vectors = encoder.encode([query, *texts])  # (1 + sentences, D)
    return dict(zip(texts, (vectors[1:] @ vectors[0]).tolist(), strict=True))


def _readable(text: str, span: Span) -> str:
    return text[span[0] : span[1]][:MAX_CHARACTERS]


def _explain(hit: Hit, found: _Candidates, cosine_of: dict[str, float]) -> Explanation:
    cosines = [cosine_of.get(_readable(hit.text, span), 0.0) for span in found.sentences]
    best = int(np.argmax(np.add(found.shares, cosines)))
    by_words = round(words_share(hit, found.shares[best], cosines[best]), SHARE_DECIMALS)
    words = tuple(match.span for match in found.matches)
    by_meaning = round(1 - by_words, SHARE_DECIMALS)
    return Explanation(found.sentences[best], words, by_words, by_meaning)


def words_share(hit: Hit, share: float, cosine: float) -> float:
    """The share of a hit's score that comes from words; 0.5 of a score of 0.

    Args:
        hit: whose parts are known if a search has returned it; else those below stand for them.
        share: of the query's words that its best sentence contains.
        cosine: of that sentence with the query.
    """
    words, meaning = share, cosine
    if hit.from_words is not None:
        words, meaning = hit.from_words, hit.score - hit.from_words
    words, meaning = max(words, 0.0), max(meaning, 0.0)  # a negative cosine is no reason
    return words / (words + meaning) if words + meaning else 0.5
