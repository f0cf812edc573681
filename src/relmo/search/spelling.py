"""Typing errors in a query: words that the index does not know become known ones one letter away.

    wrong words    their stem occurs in no passage, and the model's vocabulary lacks them
    candidates     strings with one letter substituted, deleted or inserted, or two neighbours
                   swapped, that are stop words or whose stem occurs in the index
    weight         sqrt(passages with the stem), a tenth if the vocabulary lacks the string
    context        a candidate that the best passages for all candidates contain weighs more

BM25 searches for the best candidates by their weights; the vector is that of the text with the
best ones. Letters are changed before stemming, because an error in a suffix changes the stem.

A word of the vocabulary is probably right though no passage contains it, and so is a short one,
which may be an abbreviation: these are corrected only if most words are certainly wrong.
The parameters were chosen with scripts/measure_typos.py on half of Cranfield's queries and on
questions of SQuAD's training part.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from string import ascii_lowercase

from relmo.search.lexical import make_stemmer, stop_words, to_nfkc
from relmo.search.store import Store
from relmo.text.lexicon import Lexicon

MIN_LETTERS, SURE_LETTERS, MAX_LETTERS = 3, 4, 32
"""Letters of a word that is corrected; with fewer than SURE_LETTERS only beside other errors."""
MAX_WORDS = 100
"""Different words of a query; what has more is a text, which is searched for as it is."""
ALTERNATIVES = 5
"""Candidates of a word that BM25 searches for."""
UNFAMILIAR = 0.1
"""Factor of strings that the vocabulary lacks: many have the stem of a word without being one."""
CONTEXT = 5
"""Passages that decide between candidates."""
TRUST = 2.0
"""How much more the best of them count; as in `lexical.Fusion`."""
OUT_OF_CONTEXT = 0.1
"""Added to the share of these passages that contain a candidate: none is ruled out."""
MAX_ALPHABET = 64
"""Letters that are tried in the place of another: a script may have thousands."""
RARE_LETTER = 1e-4
"""Share of the vocabulary's letters below which a letter is not tried."""
_WORD = re.compile(r"\w+")
_NO_LETTER = re.compile("[\u2e80-\ud7ff\U00020000-\U0003ffff]")
"""Chinese, Japanese and Korean: in place of one sign, another makes another word."""


@dataclass(frozen=True, slots=True)
class Corrected:
    """A query as it is searched for."""

    text: str
    """The query with wrong words replaced; the same string if there are none."""
    terms: Mapping[str, float]
    """What BM25 searches for, with weights; a wrong word has the terms of several candidates."""
    changes: tuple[tuple[str, str], ...] = ()
    """Each wrong word, as it was written, and what has taken its place."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A word that may have been meant."""

    word: str
    term: str | None
    """Its stem; None for a stop word, which BM25 does not search for."""
    weight: float


class Speller:
    """Corrects queries to the words of an index.

    Args:
        store: where the index is kept.
        language: of the index's stemmer.
        analyze: text -> terms, as for passages.
        lexicon: words that are right even if no passage contains them; without one there are none.
    """

    def __init__(
        self,
        store: Store,
        language: str,
        analyze: Callable[[str], list[str]],
        lexicon: Lexicon | None = None,
    ) -> None:
        self.store, self.analyze, self.lexicon = store, analyze, lexicon
        self._stop_words = stop_words(language)
        self._stem = make_stemmer(language, cached=0)  # thousands of strings that do not come again

    def correct(self, query: str) -> Corrected:
        """The query with wrong words replaced."""
        text = to_nfkc(query)
        words = _WORD.findall(text)
        distinct = list(dict.fromkeys(word.lower() for word in words))
        wrong = self._wrong(distinct) if len(distinct) <= MAX_WORDS else []
        candidates = self._candidates(wrong, text) if wrong else {}
        if not candidates:
            return Corrected(query, Counter(self.analyze(query)))
        candidates = self._in_context(words, candidates)
        changes: dict[str, str] = {}
        for word in words:
            if found := candidates.get(word.lower()):
                changes[word] = _in_case_of(word, found[0].word)
        corrected = _WORD.sub(lambda match: changes.get(match[0], match[0]), text)
        return Corrected(corrected, self._terms(words, candidates), tuple(changes.items()))

    def _wrong(self, words: Sequence[str]) -> list[str]:
        """The distinct words in lower case that are to be corrected."""
        words = [w for w in words if MIN_LETTERS <= len(w) <= MAX_LETTERS and is_spelled(w)]
        words = [word for word in words if word not in self._stop_words]
        terms = self._stem(words)
        known = self.store.occurrences(set(terms))
        unknown = [word for word, term in zip(words, terms, strict=True) if term not in known]
        sure = [w for w in unknown if len(w) >= SURE_LETTERS and self._row(w) is None]
        num_long = sum(len(word) >= SURE_LETTERS for word in words)
        return unknown if sure and 2 * len(sure) > num_long else sure

    def _candidates(self, wrong: Sequence[str], text: str) -> dict[str, list[Candidate]]:
        """The best candidates of each wrong word of a text; words without any are left out."""
        alphabet = self._alphabet(text)
        strings = {word: list(neighbors(word, alphabet)) for word in wrong}
        terms = {word: self._stem(strings[word]) for word in wrong}
        held = self.store.occurrences(set().union(*terms.values()))
        total = max(held.values(), default=1)  # a stop word counts as the most frequent one
        found: dict[str, list[Candidate]] = {}
        for word in wrong:
            pairs = zip(strings[word], terms[word], strict=True)
            kept = [pair for pair in pairs if pair[1] in held or pair[0] in self._stop_words]
            if best := _best(self._weighed(kept, held, total)):
                found[word] = best
        return found

    def _weighed(
        self, pairs: Iterable[tuple[str, str]], held: Mapping[str, int], total: int
    ) -> Iterator[Candidate]:
        """For each term, the most frequent string with it, from pairs of strings and terms."""
        best: dict[str | None, tuple[float, int, str]] = {}
        for string, stem in pairs:
            is_stop_word = string in self._stop_words
            if is_stop_word or len(string) >= MIN_LETTERS:
                row = self._row(string)
                ranked = (math.inf if row is None else float(row), len(string), string)
                term = None if is_stop_word else stem
                best[term] = min(best.get(term, ranked), ranked)
        for term, (rank, _, string) in best.items():
            count = total if term is None else held[term]
            familiar = UNFAMILIAR if rank == math.inf else 1.0
            yield Candidate(string, term, familiar * math.sqrt(count))

    def _in_context(
        self, words: Sequence[str], candidates: dict[str, list[Candidate]]
    ) -> dict[str, list[Candidate]]:
        """The candidates, weighed by the passages that contain most of them."""
        if all(len(each) == 1 for each in candidates.values()):
            return candidates
        found = self.store.matching(self._terms(words, candidates), CONTEXT)
        texts = self.store.texts([each.passage for each in found])
        pairs = zip(texts, found, strict=True)
        held = [(frozenset(self.analyze(text)), float(each.score**TRUST)) for text, each in pairs]
        total = sum(score for _, score in held)
        if not total:  # only stop words may have been meant
            return candidates

        def weigh(each: Candidate) -> Candidate:
            share = sum(s for terms, s in held if each.term is None or each.term in terms) / total
            return replace(each, weight=each.weight * (OUT_OF_CONTEXT + share))

        return {word: _best(map(weigh, each)) for word, each in candidates.items()}

    def _terms(
        self, words: Sequence[str], candidates: Mapping[str, Sequence[Candidate]]
    ) -> dict[str, float]:
        """What BM25 searches for: each word weighs 1, divided among its candidates."""
        weights: defaultdict[str, float] = defaultdict(float)
        for word in words:
            found = candidates.get(word.lower())
            if found is None:
                for term in self.analyze(word):
                    weights[term] += 1
            for candidate in found or ():
                if candidate.term is not None:
                    weights[candidate.term] += candidate.weight
        return dict(weights)

    def _row(self, word: str) -> int | None:
        """The first row of a word in the vocabulary, whose words are in order of frequency."""
        if self.lexicon is None:
            return None
        cased = [each for each in (word, word.capitalize(), word.upper()) if each in self.lexicon]
        return int(self.lexicon.rows(cased).min()) if cased else None

    def _alphabet(self, text: str) -> str:
        """The letters that are tried: those of the vocabulary and of the query."""
        own = [letter for letter, _ in Counter(filter(str.isalpha, text.lower())).most_common()]
        return "".join(list(dict.fromkeys([*self._letters, *own]))[:MAX_ALPHABET])

    @cached_property
    def _letters(self) -> list[str]:
        """The letters of the vocabulary, the most frequent first."""
        if self.lexicon is None:
            return list(ascii_lowercase)
        counts = Counter("".join(self.lexicon.words).lower())
        rare = RARE_LETTER * counts.total()
        return [each for each, count in counts.most_common() if each.isalpha() and count >= rare]


def is_spelled(word: str) -> bool:
    """Whether the word consists of letters, and not of ideographs or syllables."""
    return word.isalpha() and not _NO_LETTER.search(word)


def neighbors(word: str, alphabet: str) -> set[str]:
    """The strings that differ in one letter, or in the order of two that are side by side."""
    halves = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    found = {left + right[1:] for left, right in halves}
    found |= {left + right[1] + right[0] + right[2:] for left, right in halves if len(right) > 1}
    found |= {left + each + right[1:] for left, right in halves if right for each in alphabet}
    found |= {left + each + right for left, right in halves for each in alphabet}
    return found - {word}


def _best(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Those of the highest weight, best first; their weights are made to add up to 1."""
    best = sorted(candidates, key=lambda each: (-each.weight, each.word))[:ALTERNATIVES]
    total = sum(each.weight for each in best)
    return [replace(each, weight=each.weight / total) for each in best]


def _in_case_of(written: str, word: str) -> str:
    """The word in capitals, or with a first one, if the written word has them."""
    if written.isupper():
        return word.upper()
    return word if written.islower() else word[:1].upper() + word[1:]
