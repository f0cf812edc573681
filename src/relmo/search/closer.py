"""A closer reading of the best passages: does each word of the query have a near one there?

    share = sum over the query's words of rarity * max over the passage's words of cosine ^ 4
            / sum of their rarities

The vector of a text is a sum, in which single words drown; BM25 sees single words, but only the
same ones. This compares word by word, by the vectors of the encoder (Khattab and Zaharia 2020 do so
with contextual ones), so it reads texts, not the index, and only those of the first passages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from relmo.search.lexical import Closer, rarity, stop_words
from relmo.search.store import Store
from relmo.tasks.encoder.text_encoder import TextEncoder
from relmo.types import Vectors

CHARACTERS = 4000
"""Of a passage that are read."""
POWER = 4
"""Of a cosine: a word that is only remotely near counts next to nothing."""
UNSEEN = 0.7
"""What the rarity of a word counts that no passage contains."""
MAX_WORDS = 64
"""Words of a query that are looked for."""
KNOWN_WORDS = 50_000
"""Whose vectors are kept in memory."""
_WORD = re.compile(r"\w+")


class CloserReader:
    """Compares queries with passages word by word.

    Args:
        model: whose word vectors are compared; it must read words without their sentence.
        store: in which words are rare or not.
        analyze: word -> its term there.
        language: whose stop words are passed over.
    """

    def __init__(
        self, model: TextEncoder, store: Store, analyze: Callable[[str], list[str]], language: str
    ) -> None:
        self._model, self._store, self._analyze = model, store, analyze
        self._stop_words = stop_words(language)
        self._known: dict[str, Vectors] = {}

    def of(self, query: str) -> Closer:
        """What reads texts for this query."""
        words = [word for word in _WORD.findall(query) if word.lower() not in self._stop_words]
        words = list(dict.fromkeys(words))[:MAX_WORDS]
        weights = self._rarity(words)  # (Q,)
        wanted = self._vectors(words)  # (Q, D)

        def shares(texts: Sequence[str]) -> Vectors:
            if not words:
                return np.zeros(len(texts), np.float32)
            found = [set(_WORD.findall(text[:CHARACTERS])) for text in texts]
            row_of = {word: row for row, word in enumerate(sorted(set().union(*found)))}
            near = np.maximum(wanted @ self._vectors(list(row_of)).T, 0) ** POWER  # (Q, U)
            for number, word in enumerate(words):
                if word in row_of:
                    near[number, row_of[word]] = 1  # also a word without a vector
            best = [
                near[:, [row_of[word] for word in own]].max(1) if own else np.zeros(len(words))
                for own in found
            ]  # each (Q,)
            return np.asarray(np.array(best) @ weights / weights.sum(), dtype=np.float32)

        return shares

    def _rarity(self, words: Sequence[str]) -> Vectors:
        """How rare words are in the index, (Q,)."""
        terms = [next(iter(self._analyze(word)), "") for word in words]
        passages, total = self._store.occurrences(set(terms)), self._store.counts().passages
        found = []
        for term in terms:
            count = passages.get(term, 0)
            found.append(rarity(count, total) * (1 if count else UNSEEN))
        return np.array(found, np.float32)

    def _vectors(self, words: Sequence[str]) -> Vectors:
        """Unit-length vectors of words, (U, D); each is computed once."""
        if len(self._known) > KNOWN_WORDS:
            self._known = {}
        known = self._known
        if new := [word for word in words if word not in known]:
            known.update(zip(new, self._model.encode_words(new), strict=True))
        rows = [known[word] for word in words]
        return np.array(rows, np.float32).reshape(len(rows), self._model.width)
