"""Nearest occurrences of a word in context, beside the nearest words without it (Table 4).

The query is one occurrence: a word of a sentence. Its vector is compared with that of the same
word wherever it stands in a corpus, by sense vectors (nn/senses.py) or those of a layer, or with
all words there. Beside it stand the words whose vectors without context, layer 0, are nearest:
these know one "play" for all.

Shapes: N occurrences of one sentence, D width.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relmo.elmo import Elmo
from relmo.errors import TextError
from relmo.runtime.pooling import normalize

Words = Sequence[str]
TOGETHER = 512
"""Sentences whose sense vectors are held at a time."""


@dataclass(frozen=True, order=True)
class Occurrence:
    """A word where it stands, and how near it is."""

    cosine: float
    words: tuple[str, ...]
    """Of the sentence."""
    position: int

    @property
    def word(self) -> str:
        """As it is written there."""
        return self.words[self.position]


def find_position(words: Words, word: str) -> int:
    """Where a word first stands in a sentence: as it is written, else in any case."""
    for same in (str, str.lower):
        for position, other in enumerate(words):
            if same(other) == same(word):
                return position
    raise TextError(f"{word!r} does not stand in the sentence; its words are {' '.join(words)!r}")


def compared_layer(elmo: Elmo, layer: int | None, any_word: bool) -> int | None:
    """The layer that is compared: as asked, else the top one for any word, None for one word."""
    return elmo.config.num_layers - 1 if any_word and layer is None else layer


def nearest_occurrences(
    elmo: Elmo,
    words: Words,
    position: int,
    corpus: Iterable[Words],
    *,
    layer: int | None = None,
    count: int = 10,
    any_word: bool = False,
) -> list[Occurrence]:
    """The occurrences in a corpus that are nearest to a word in its sentence, nearest first.

    Args:
        elmo: the model.
        words: the sentence.
        position: of the word in it.
        corpus: sentences, read once; the sentence itself is passed over.
        layer: whose vectors are compared; sense vectors unless given.
        count: how many are wanted.
        any_word: compare with all words, not with the same word alone, for which sense vectors
            are made; so by the top layer unless another is given.
    """
    layer = compared_layer(elmo, layer, any_word)
    (own,) = _vectors(elmo, [list(words)], layer)
    query = normalize(own[position])  # (D,)
    asked = words[position].lower()

    def places(sentence: Words) -> list[int]:
        return [i for i, w in enumerate(sentence) if any_word or w.lower() == asked]

    seen = {tuple(words)}
    kept: list[tuple[str, ...]] = []

    def with_it() -> Iterable[list[str]]:
        for sentence in corpus:
            if tuple(sentence) not in seen and places(sentence):
                seen.add(tuple(sentence))
                kept.append(tuple(sentence))
                yield list(sentence)

    best: list[Occurrence] = []
    for number, vectors in enumerate(_vectors(elmo, with_it(), layer)):  # (T, D)
        sentence = kept[number]
        found = places(sentence)  # (N,)
        cosines = normalize(vectors[found]) @ query  # (N,)
        here = (Occurrence(float(c), sentence, i) for c, i in zip(cosines, found, strict=True))
        best = heapq.nlargest(count, [*best, *here])
        kept[number] = ()  # only the best are held
    return best


def _vectors(
    elmo: Elmo, sentences: Iterable[list[str]], layer: int | None
) -> Iterator[NDArray[np.floating[Any]]]:
    """(T, D) vectors of each sentence, of a layer or, for None, sense vectors."""
    if layer is not None:
        yield from elmo.embed_stream(sentences, layers=layer)
        return
    waiting = iter(sentences)
    while part := list(islice(waiting, TOGETHER)):
        yield from elmo.sense_vectors(part)


def nearest_words(
    elmo: Elmo, word: str, candidates: Sequence[str], count: int = 10
) -> list[tuple[str, float]]:
    """The words whose vectors without context are nearest to a word's, with their cosines."""
    others = [w for w in dict.fromkeys(candidates) if w.lower() != word.lower()]
    if not others:
        return []
    table = normalize(
        elmo.runtime.memo.vectors([word, *others]).float().cpu().numpy()
    )  # (1 + words, P)
    cosines = table[1:] @ table[0]
    order = np.argsort(-cosines, kind="stable")[:count]
    return [(others[i], float(cosines[i])) for i in order]
