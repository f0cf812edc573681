"""How much each word counts in a passage's vector: common words little, rare words fully.

    weight = a / (a + p)          p the word's share of running text (Arora et al. 2017)

p is read off the model's word list, which is sorted by count: by Zipf's law the word of rank r has
a share near 1 / (r ln V). Or it is counted in the passages that are indexed.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable

import numpy as np

from relmo.text.lexicon import Lexicon
from relmo.types import Vectors

EULER = 0.5772
KEPT = 20_000
"""Most common words whose counts are kept; all others are rare, and count fully or nearly so."""


class WordWeights:
    """The weight of any word.

    Args:
        shares: word -> its share of running text.
        rest: the share of a word that is not among them.
        a: the share at which a word counts half; 0 gives every word the weight 1.
    """

    def __init__(self, shares: dict[str, float], rest: float, a: float) -> None:
        self.shares, self.rest, self.a = shares, rest, a

    def of(self, words: Iterable[str]) -> Vectors:
        """Weights of words in order, (T,)."""
        if self.a == 0:
            return np.array([1.0 for _ in words], dtype=np.float32)
        return np.array([self.a / (self.a + self._share(w)) for w in words], dtype=np.float32)

    def _share(self, word: str) -> float:
        """Of the word as written, else in lower case, else capitalised."""
        for form in (word, word.lower(), word.capitalize()):
            if form in self.shares:
                return self.shares[form]
        return self.rest

    @classmethod
    def uniform(cls) -> WordWeights:
        """Every word counts the same."""
        return cls({}, 0.0, 0.0)

    @classmethod
    def of_lexicon(cls, lexicon: Lexicon, a: float) -> WordWeights:
        """By rank in a list sorted by count."""
        scale = math.log(len(lexicon)) + EULER
        shares = {word: 1 / ((rank + 1) * scale) for rank, word in enumerate(lexicon.words)}
        return cls(shares, 1 / (len(lexicon) * scale), a)

    @classmethod
    def counted(cls, sentences: Iterable[Iterable[str]], a: float) -> WordWeights:
        """By how often words occur in these sentences, case set aside."""
        counts = Counter(word.lower() for sentence in sentences for word in sentence)
        total = max(counts.total(), 1)
        shares = {word: count / total for word, count in counts.most_common(KEPT)}
        return cls(shares, 1 / total, a)

    def to_bytes(self) -> bytes:
        """As it is kept in the store."""
        return json.dumps([self.shares, self.rest, self.a]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> WordWeights:
        """As it was kept."""
        return cls(*json.loads(data))
