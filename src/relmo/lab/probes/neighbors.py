"""Nearest occurrences of a word in context, beside the nearest words without it (Table 4).

The query is one occurrence: a word of a sentence. Its vector is compared with that of the same
word wherever it occurs in a corpus, by sense vectors (runtime/senses.py) or those of a layer, or
with all words there. Words are also compared without context, by layer 0, which has one "play".

Shapes: N occurrences of one sentence, D width.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from relmo.elmo import Elmo
from relmo.errors import TextError
from relmo.layers import LayerChoice, check_one_layer
from relmo.runtime.pooling import normalize

SENTENCES_AT_ONCE = 512
"""Sentences whose sense vectors are in memory at a time."""


class Occurrence(NamedTuple):
    """A word in a sentence, and its similarity to the query."""

    cosine: float
    words: tuple[str, ...]
    """The sentence."""
    position: int


def find_position(words: Sequence[str], word: str) -> int:
    """The first position of a word in a sentence: as written, else ignoring case."""
    for same in (str, str.lower):
        for position, other in enumerate(words):
            if same(other) == same(word):
                return position
    raise TextError(f"{word!r} is not in the sentence; its words are {' '.join(words)!r}")


def compared_layer(elmo: Elmo, layer: LayerChoice | None, any_word: bool) -> LayerChoice | None:
    """The layer to compare by: the given one, else the top one for any word, None for one word."""
    if layer is not None:
        check_one_layer(layer, elmo.config.num_layers)
    return elmo.config.num_layers - 1 if any_word and layer is None else layer


def nearest_occurrences(
    elmo: Elmo,
    words: Sequence[str],
    position: int,
    corpus: Iterable[Sequence[str]],
    *,
    layer: LayerChoice | None = None,
    count: int = 10,
    any_word: bool = False,
) -> list[Occurrence]:
    """The occurrences in a corpus that are most similar to a word in its sentence, best first.

    Args:
        elmo: the model.
        words: the sentence.
        position: of the word in it.
        corpus: sentences, read once; the sentence itself is skipped, as are duplicates.
        layer: whose vectors are compared; sense vectors by default.
        count: how many to return.
        any_word: compare with all words. Sense vectors only compare occurrences of one word, so
            the default is the top layer then.
    """
    layer = compared_layer(elmo, layer, any_word)
    (own,) = _vectors(elmo, [list(words)], layer)
    query = normalize(own[position])  # (D,)
    wanted = words[position].lower()
    seen = {tuple(words)}
    waiting: deque[tuple[tuple[str, ...], list[int]]] = deque()  # whose vectors are to come

    def matching() -> Iterator[list[str]]:
        for sentence in map(tuple, corpus):
            places = [i for i, w in enumerate(sentence) if any_word or w.lower() == wanted]
            if places and sentence not in seen:
                seen.add(sentence)
                waiting.append((sentence, places))
                yield list(sentence)

    best: list[Occurrence] = []
    for vectors in _vectors(elmo, matching(), layer):  # (T, D)
        sentence, places = waiting.popleft()
        cosines = normalize(vectors[places]) @ query  # (N,)
        here = (Occurrence(float(c), sentence, i) for c, i in zip(cosines, places, strict=True))
        best = heapq.nlargest(count, [*best, *here])
    return best


def _vectors(
    elmo: Elmo, sentences: Iterable[list[str]], layer: LayerChoice | None
) -> Iterator[NDArray[np.floating[Any]]]:
    """Vectors (T, D) of each sentence, of a layer or, for None, sense vectors."""
    if layer is not None:
        yield from elmo.embed_stream(sentences, layers=layer)
        return
    rest = iter(sentences)
    while part := list(islice(rest, SENTENCES_AT_ONCE)):
        yield from elmo.sense_vectors(part)


def nearest_words(
    elmo: Elmo, word: str, candidates: Sequence[str], count: int = 10
) -> list[tuple[str, float]]:
    """The words most similar to a word without context, with their cosines."""
    others = [w for w in dict.fromkeys(candidates) if w.lower() != word.lower()]
    if not others:
        return []
    vectors = elmo.runtime.memo.vectors([word, *others])  # (1 + words, P)
    table = normalize(vectors.float().cpu().numpy())  # unit length, so that products are cosines
    cosines = table[1:] @ table[0]  # (words,)
    order = np.argsort(-cosines, kind="stable")[:count]
    return [(others[i], float(cosines[i])) for i in order]
