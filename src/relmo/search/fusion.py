"""Hybrid search: BM25 finds passages, and these refine the query vector (relevance feedback).

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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from relmo.config import Count, NonNegative, Settings
from relmo.runtime.pooling import normalize
from relmo.search.filters import Conditions
from relmo.search.store import Scored, Store, rank
from relmo.types import Vectors

CANDIDATES = 200
"""Passages that BM25 and vectors each contribute."""
RIVALS = 5
"""Passages after the best whose scores show how far it stands out."""
MIN_EVENNESS = 0.1
"""So that passages without the query's words are still ordered by their vectors."""


@dataclass(frozen=True, kw_only=True)
class Fusion(Settings):
    """How BM25 scores and vectors are combined."""

    first: Count = 5
    feedback: NonNegative = 2.0
    trust: NonNegative = 2.0
    share: NonNegative = 1.5
    sharpness: NonNegative = 3.0

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
        relative = bm25 / bm25.max()
        rivals = np.sort(relative)[::-1][1 : RIVALS + 1]
        evenness = max(float(rivals.sum()) / RIVALS, MIN_EVENNESS)
        return np.asarray(relative**self.sharpness + self.share * evenness * cosines)


def hybrid_search(
    store: Store, query: Vectors, terms: Sequence[str], count: int, where: Conditions = ()
) -> list[Scored]:
    """Passages by terms and vector together, best first."""
    fusion = Fusion()
    candidates = max(count, CANDIDATES)
    lexical = store.matching(terms, candidates, where)
    if not lexical:
        return store.nearest(query, count, where) if query.any() else []
    first = lexical[: fusion.first]
    scores = np.array([each.score for each in first])
    query = fusion.refine(query, scores, store.vectors([each.passage for each in first]))
    nearest = store.nearest(query, candidates, where)
    numbers = sorted({each.passage for each in (*lexical, *nearest)})
    score_of = dict(lexical)
    scores = np.array([score_of.get(number, 0.0) for number in numbers])
    combined = fusion.combine(scores, store.vectors(numbers) @ query)
    return rank(np.array(numbers), combined, count)
