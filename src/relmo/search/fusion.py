"""Hybrid search: the query's words find passages, and these teach the vector what is sought.

    w           BM25 / the best BM25, of each passage
    query'      unit(query + feedback * unit(mean vector of the `first`, weighted by w ^ trust))
    evenness    mean w of the second to the sixth: near 1 where words leave many equals
    score       w ^ sharpness + share * evenness * cosine with query'

A short query says little in a vector; passages that hold its words say more. Where one passage
holds the words far better than all others, it is what is sought, and vectors have little to add.
The numbers were chosen by scripts/choose_pooling.py on half of Cranfield's queries, each with many
documents to be found, and questions of SQuAD's training part, each with one paragraph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from relmo.runtime.pooling import normalize
from relmo.search.bm25 import ranked
from relmo.search.filters import Condition
from relmo.search.store import Scored, Store
from relmo.types import Vectors

CANDIDATES = 200
"""Passages that each side offers."""
RIVALS = 5
"""Passages after the best whose scores say how far it stands out."""
LEAST = 0.1
"""Of evenness: passages without the query's words are ranked by their vectors at least."""


@dataclass(frozen=True)
class Fusion:
    """How words and vectors are joined."""

    first: int = 5
    feedback: float = 2.0
    trust: float = 2.0
    share: float = 1.5
    sharpness: float = 3.0

    def learn(self, query: Vectors, words: Vectors, vectors: Vectors) -> Vectors:
        """The query moved towards the passages found first.

        Args:
            query: (D,), of length one or zero.
            words: (n,) BM25 of passages, the best first.
            vectors: (n, D) theirs.
        """
        weights = (words[: self.first] / words[0]) ** self.trust  # (first,)
        towards = normalize(weights @ vectors[: self.first])
        return normalize(query + self.feedback * towards)

    def combine(self, words: Vectors, cosines: Vectors) -> Vectors:
        """One score per passage, (n,): BM25, 0 where no word is held, and cosines with the query.

        Args:
            words: (n,) in any order, one above 0 at least.
            cosines: (n,).
        """
        shares = words / words.max()
        rivals = np.sort(shares)[::-1][1 : RIVALS + 1]
        evenness = max(float(rivals.sum()) / RIVALS, LEAST)
        return np.asarray(shares**self.sharpness + self.share * evenness * cosines)


def search_both(
    store: Store,
    query: Vectors,
    terms: Sequence[str],
    count: int,
    where: Sequence[Condition] = (),
    fusion: Fusion = Fusion(),  # noqa: B008 - frozen
) -> list[Scored]:
    """Passages by words and vector together, best first."""
    many = max(count, CANDIDATES)
    lexical = store.matching(terms, many, where)
    if not lexical:
        return store.nearest(query, count, where) if query.any() else []
    found = lexical[: fusion.first]
    words = np.array([each.score for each in found])
    query = fusion.learn(query, words, store.vectors([each.passage for each in found]))
    nearest = store.nearest(query, many, where)
    numbers = sorted({each.passage for each in (*lexical, *nearest)})
    score_of = dict(lexical)
    words = np.array([score_of.get(number, 0.0) for number in numbers])
    scores = fusion.combine(words, store.vectors(numbers) @ query)
    return ranked(np.array(numbers), scores, count)
