"""The senses of a word: clusters of its places in a corpus, their number found by the data.

    found = find_senses(elmo, "bank", ["news.txt"])
    for sense in found.senses:
        print(sense.share, sense.substitutes, sense.examples[0])

How a place is represented, when clusters are joined and which are too small was chosen by SemCor's
annotated senses: docs/senses.md has the numbers.

Shapes: N places, K senses, P width of one direction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.table import Table
from rich.text import Text

from relmo.elmo import Elmo
from relmo.errors import ConfigError
from relmo.progress import working
from relmo.runtime.pooling import normalize
from relmo.senses.clusters import Labels, cluster
from relmo.senses.places import (
    Corpus,
    Source,
    States,
    TooFewPlaces,
    Use,
    Whitening,
    expected_elsewhere,
    read_states,
)
from relmo.text.places import Place
from relmo.types import Vectors

THRESHOLD = 0.68
"""Clusters are different senses below this many times 1 / √P, the spread of random cosines."""
MOST_PLACES = 1000
FEW_PLACES = 20
"""Fewer places than these say little about the number of senses."""
SOFTMAX_TOKENS = 64
"""A softmax takes about as long as reading this many tokens."""
FIELDS = ("sense", "similarity", "text", "start", "end", "form", "file", "line")
"""Columns of a file of places."""


class Sense(NamedTuple):
    """A cluster of places."""

    share: float
    """Of the word's places."""
    places: int
    substitutes: list[str]
    """Words that fit its places best, by the mean of their scores there; empty if the model has no
    softmax."""
    examples: list[Place]
    """Nearest to the center first."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON."""
        examples = [{"text": e.text, "start": e.start, "end": e.end} for e in self.examples]
        return {**self._asdict(), "share": round(self.share, 4), "examples": examples}


class WordSenses(NamedTuple):
    """A word's senses, the most frequent first, and where each stands."""

    word: str
    senses: list[Sense]
    places: list[Place]
    """N, in an order of their own."""
    labels: Labels
    """(N,) the number of each place's sense, from 0."""
    similarities: Vectors
    """(N,) cosine of each place to the center of its sense."""
    vectors: Vectors
    """(N, P) of the places, whitened, unit length."""
    sources: list[tuple[str, int]]
    """File (empty for a pasted text) and line, from 1, of each place."""

    @property
    def remark(self) -> str | None:
        """What to keep in mind."""
        count = len(self.places)
        if count >= FEW_PLACES:
            return None
        which = "1 place says" if count == 1 else f"{count} places say"
        return f"{which} little about the number of senses; give more text"

    def rows(self) -> Iterator[tuple[int, float, str, int, int, str, str, int]]:
        """FIELDS of each place, sense by sense, nearest to the center first; senses from 1."""
        for i in np.lexsort((-self.similarities, self.labels)).tolist():
            place = self.places[i]
            near, form = float(self.similarities[i]), place.text[place.start : place.end]
            sense = int(self.labels[i]) + 1
            yield sense, near, place.text, place.start, place.end, form, *self.sources[i]

    def to_dict(self) -> dict[str, Any]:
        """The senses as JSON."""
        senses = [sense.to_dict() for sense in self.senses]
        return {"word": self.word, "places": len(self.places), "senses": senses}

    def table(self) -> Table:
        """A row per sense."""
        kinds = "sense" if len(self.senses) == 1 else "senses"
        places = "1 place" if len(self.places) == 1 else f"{len(self.places):,} places"
        title = f"{self.word!r}: {len(self.senses)} {kinds} at {places}"
        table = Table("sense", "share", "substitutes", "examples", title=title, show_lines=True)
        for number, sense in enumerate(self.senses, 1):
            examples = Text("\n".join(map(str, sense.examples)))
            words = Text(", ".join(sense.substitutes) or "–")
            table.add_row(str(number), f"{sense.share:.0%}", words, examples)
        return table


def find_senses(
    elmo: Elmo,
    word: str,
    corpus: Source,
    *,
    most: int = MOST_PLACES,
    threshold: float | None = None,
    examples: int = 3,
    substitutes: int = 8,
    seed: int = 0,
    use: Use | None = None,
) -> WordSenses:
    """The senses of a word in a text.

    Args:
        elmo: the model.
        word: in any case; the tokenizer may split it.
        corpus: text files or folders of them, or `Pasted(text)`.
        most: places used at most, an even sample of all.
        threshold: mean cosine, from -1 to 1, below which clusters are not joined; by default
            THRESHOLD / √P.
        examples: shown per sense.
        substitutes: shown per sense.
        seed: of the samples.
        use: how to use the model where others do, silently; by default it is used at will.
    """
    check_threshold(threshold)
    show = use is None
    text = Corpus(elmo, corpus, seed, show)
    places = text.places([word], most)
    if not places[word]:
        said = f"{word!r} is not in {text.name}; check its form, or give more text"
        raise TooFewPlaces(said, [0])
    states = read_states(elmo, places[word], show, use)
    with working("comparing places", show=show):
        vectors = Whitening(expected_elsewhere(elmo, text.others, use))(states.expected)  # (N, P)
        labels = sense_labels(vectors, threshold)
    found = [each.place for each in places[word]]
    near = similarity_to_center(vectors, labels)
    words = best_substitutes(elmo, word, states, labels, substitutes, use)
    senses = []
    for number, own in enumerate(words):
        rows = np.flatnonzero(labels == number)
        best = distinct([found[i] for i in rows[np.argsort(-near[rows], kind="stable")]], examples)
        senses.append(Sense(len(rows) / len(found), len(rows), own, best))
    sources = [(each.file, each.line) for each in places[word]]
    return WordSenses(word, senses, found, labels, near, vectors, sources)


def check_threshold(threshold: float | None) -> None:
    """Raise unless it is a cosine, or None."""
    if threshold is not None and not -1 <= threshold <= 1:
        raise ConfigError(f"the threshold is a cosine, from -1 to 1, got {threshold}")


def sense_labels(vectors: Vectors, threshold: float | None = None) -> Labels:
    """The sense of each place (N,) by whitened vectors (N, P), from 0, the most frequent first."""
    usual = THRESHOLD / vectors.shape[1] ** 0.5
    return cluster(vectors, usual if threshold is None else threshold)


def similarity_to_center(vectors: Vectors, labels: Labels) -> Vectors:
    """Cosine (N,) of each vector to the mean of its cluster."""
    means = np.stack([vectors[labels == number].mean(0) for number in range(labels.max() + 1)])
    near: Vectors = (vectors * normalize(means)[labels]).sum(1)
    return near


def distinct(places: Sequence[Place], count: int) -> list[Place]:
    """The first places that look different."""
    return list({str(place).casefold(): place for place in reversed(places)}.values())[::-1][:count]


def best_substitutes(
    elmo: Elmo, word: str, states: States, labels: Labels, count: int, use: Use | None = None
) -> list[list[str]]:
    """Words that fit the places of each cluster best, other than the word; none without softmax."""
    clusters = range(labels.max() + 1)
    if not elmo.has_lm or not count:
        return [[] for _ in clusters]
    means = [np.stack([side[labels == k].mean(0) for k in clusters]) for side in states]

    def find() -> list[list[tuple[str, float]]]:
        forward, backward = (torch.from_numpy(mean).to(elmo.device) for mean in means)
        return elmo.lm.best_words(forward, backward, 5 * count + 20)

    best = find() if use is None else use(find, SOFTMAX_TOKENS * len(clusters))
    kept = []
    for own in best:
        words = {w.casefold(): w for w, _ in reversed(own) if any(c.isalnum() for c in w)}
        words.pop(word.casefold(), None)
        kept.append(list(words.values())[::-1][:count])
    return kept
