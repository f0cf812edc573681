"""Hybrid search: the query's words find passages, and these teach the vector what is sought.

    lexical     the passages that BM25 puts first
    query'      unit(query + FEEDBACK * unit(mean vector of the FIRST of them)), after Rocchio
    score       BM25 / the best BM25 + SHARE * cosine with query'

A short query says little in a vector; passages that hold its words say more. The numbers were
chosen on half of Cranfield's queries by scripts/choose_pooling.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relmo.nn.pooling import normalize
from relmo.search.bm25 import ranked
from relmo.search.filters import Condition
from relmo.search.store import Scored, Store
from relmo.types import Vectors

CANDIDATES = 200
"""Passages that each side offers."""
FIRST = 5
FEEDBACK = 2.0
SHARE = 1.5


def search_both(
    store: Store,
    query: Vectors,
    terms: Sequence[str],
    count: int,
    where: Sequence[Condition] = (),
) -> list[Scored]:
    """Passages by words and vector together, best first."""
    many = max(count, CANDIDATES)
    lexical = store.matching(terms, many, where)
    if not lexical:
        return store.nearest(query, count, where) if query.any() else []
    query = learn(query, store.vectors([each.passage for each in lexical[:FIRST]]))
    nearest = store.nearest(query, many, where)
    numbers = sorted({each.passage for each in (*lexical, *nearest)})
    words = dict(lexical)
    scores = combine(
        np.array([words.get(number, 0.0) for number in numbers]),
        store.vectors(numbers) @ query,
    )
    return ranked(np.array(numbers), scores, count)


def learn(query: Vectors, first: Vectors) -> Vectors:
    """The query moved towards the passages found first: (D,), (n, D) -> (D,)."""
    towards = normalize(first.mean(0, keepdims=True))
    return np.asarray(normalize(query + FEEDBACK * towards)[0])


def combine(words: Vectors, cosines: Vectors) -> Vectors:
    """One score per passage, (n,)."""
    return np.asarray(words / max(float(words.max()), 1e-9) + SHARE * cosines)
