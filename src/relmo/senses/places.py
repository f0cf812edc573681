"""The places of words in a corpus, and a vector of each: what its context expects there.

The forward model before a word and the backward model after it predict through one softmax, so the
sum of their states is what both sides together expect at the place. The word itself has no part in
it: vectors of different words, or of one that is not in the vocabulary, can be compared.

Vectors are whitened by other places of the same corpus: what every context has in common (what
stands after a comma, in long sentences, …) counts less than what this one has of its own.

Shapes: N places, P width of one direction.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from relmo.elmo import Elmo
from relmo.errors import TextError
from relmo.layers import expected_states
from relmo.progress import progress, working
from relmo.runtime.pooling import normalize
from relmo.text.batches import in_windows
from relmo.text.documents import find_files, number_documents, read_numbered
from relmo.text.places import Place, find_places
from relmo.types import Vectors

Words = tuple[str, ...]
PASSAGE_LINES = 50
"""Lines of a document that are one passage at most."""
FEW_PASSAGES = 20
"""A text without blank lines is not cut into fewer, if it has as many lines."""
FEW_WORDS = 20
"""Up to so many words, lines that contain none of them are skipped before they are tokenized."""
OTHER_LINES = 500
"""Lines of the corpus whose places the vectors are whitened by."""
COMMON_WORDS = 100
"""Most frequent words of these lines, whose places are left out."""
RIDGE = 0.3
"""Of the mean variance, added to all: directions that vary little are not blown up."""
SLICE_TOKENS = 2048
"""Tokens read at once where others use the model, too: it is theirs in between."""
Use = Callable[[Callable[[], Any], int], Any]
"""Runs a function that needs the model, and takes as long as reading so many tokens."""


class TooFewPlaces(TextError):
    """A word occurs too rarely; `counts` says how often, in each corpus."""

    def __init__(self, message: str, counts: Sequence[int]) -> None:
        super().__init__(message)
        self.counts = list(counts)


class Pasted(NamedTuple):
    """A text that is in no file."""

    text: str

    def documents(self) -> Iterator[tuple[str, int, list[str]]]:
        """No file, number of the first line, and lines of what stands between blank lines."""
        lines = self.text.replace("\r\n", "\n").split("\n")
        return (("", *numbered) for numbered in number_documents(lines))


Source = Sequence[Path | str] | Pasted
"""Text files or folders of them, or a text itself."""


class Placed(NamedTuple):
    """A sentence, and the place of a word in it."""

    words: Words
    place: Place
    passage: int = 0
    """The number of the document, or of its part: places of one are not independent."""
    file: str = ""
    """Where the sentence was read; empty for a text that is in none."""
    line: int = 0
    """Of the file or text, from 1."""


class Reservoir:
    """An even sample of a stream of unknown length, the same for the same seed."""

    def __init__(self, size: int, seed: int) -> None:
        self.items: list[Placed] = []
        self.size, self.seen, self._rng = size, 0, random.Random(seed)

    def add(self, item: Placed) -> None:
        """Keep the item, perhaps instead of another."""
        self.seen += 1
        if len(self.items) < self.size:
            self.items.append(item)
        elif (at := self._rng.randrange(self.seen)) < self.size:
            self.items[at] = item


class Corpus:
    """Text, read line by line."""

    def __init__(self, elmo: Elmo, source: Source, seed: int = 0, show: bool = True) -> None:
        self.elmo, self.seed, self.show = elmo, seed, show
        self._documents: Callable[[], Iterable[tuple[str, int, list[str]]]]
        if isinstance(source, Pasted):
            self.name, self._documents = "the text", source.documents
        else:
            files, self.name = find_files(source), ", ".join(map(str, source))
            self._documents = lambda: (
                (str(path), *numbered) for path in files for numbered in read_numbered(path)
            )
        self.others: list[str] = []
        """An even sample of the lines, once they have been read."""
        self._begins: list[int] = []  # lines with which documents begin, and how many there are
        self._files = 0

    def places(self, words: Sequence[str], most: int) -> dict[str, list[Placed]]:
        """Places of each word in any case, an even sample of at most so many.

        Repeated sentences count once. Passages are documents, which blank lines or files part, cut
        after 50 lines; in a text without blank lines after fewer, if that leaves fewer than 20.
        """
        wanted: dict[str, list[str]] = defaultdict(list)  # by what stands first in their places
        for word in words:
            tokens = self.elmo.tokenizer.tokens(word)
            for first in {word.casefold(), *(token.text.casefold() for token in tokens[:1])}:
                wanted[first].append(word)
        found = {word: Reservoir(most, self.seed) for word in words}
        seen: set[int] = set()
        keys = tuple(wanted) if len(words) <= FEW_WORDS else ()
        for at, file, line, sentence in self._sentences(keys):
            folded = {each.casefold() for each in sentence}
            here = {word for first in folded & wanted.keys() for word in wanted[first]}
            if not here or (own := hash(sentence)) in seen:
                continue
            seen.add(own)
            for word in sorted(here):
                split = self.elmo.tokenizer
                [(_, places)] = find_places(word, [list(sentence)], split, any_case=True)
                for place in places:
                    found[word].add(Placed(sentence, place, at, file, line))
        starts = self._passage_starts()  # until here the number of the line stands for the passage
        return {
            word: [p._replace(passage=bisect_right(starts, p.passage)) for p in reservoir.items]
            for word, reservoir in found.items()
        }

    def counts(self) -> Counter[str]:
        """How often each word of letters occurs."""
        return Counter(w for *_, sentence in self._sentences() for w in sentence if w.isalpha())

    def _passage_starts(self) -> list[int]:
        """The lines, from 0 and without blank ones, with which passages begin."""
        *begins, lines = self._begins
        length = PASSAGE_LINES
        if len(begins) <= self._files:  # no blank line
            length = min(length, max(1, lines // FEW_PASSAGES))
        return [at for one, end in pairwise(self._begins) for at in range(one, end, length)]

    def _sentences(self, keys: tuple[str, ...] = ()) -> Iterator[tuple[int, str, int, Words]]:
        """The sentences in lines that contain one of the keys, or in all, each with its line.

        That is its number among the lines that are not blank, from 0, its file, and its number
        there, from 1.
        """
        rng, lines, files = random.Random(self.seed), 0, set()
        self.others, self._begins = [], []
        with working(f"lines of {self.name} read", show=self.show) as work:
            for file, first, document in self._documents():
                self._begins.append(lines)
                files.add(file)
                for number, line in enumerate(document, first):
                    lines += 1
                    if len(self.others) < OTHER_LINES:
                        self.others.append(line)
                    elif (at := rng.randrange(lines)) < OTHER_LINES:
                        self.others[at] = line
                    folded = line.casefold() if keys else ""
                    if not keys or any(key in folded for key in keys):
                        for words in self.elmo.sentences([line]):
                            yield lines - 1, file, number, tuple(words)
                    work.advance()
        self._begins.append(lines)
        self._files = len(files)


class States(NamedTuple):
    """What predicts the word at N places: states of the top layer."""

    forward: Vectors
    """(N, P) before the word."""
    backward: Vectors
    """(N, P) after it."""

    @property
    def expected(self) -> Vectors:
        """What both sides expect together, (N, P), unit length."""
        return normalize(self.forward + self.backward)


def read_states(
    elmo: Elmo, placed: Sequence[Placed], show: bool = True, use: Use | None = None
) -> States:
    """States at each place; each sentence is read once."""
    rows: dict[Words, list[int]] = defaultdict(list)
    for row, each in enumerate(placed):
        rows[each.words].append(row)
    P = elmo.config.width // 2
    found = States(*(np.empty((len(placed), P), np.float32) for _ in range(2)))
    read = progress(_read(elmo, map(list, rows), use), len(rows), "sentences read", show)
    for own, states in zip(rows.values(), read, strict=True):  # states (T, 2P)
        for row in own:
            place = placed[row].place
            found.forward[row] = states[place.position, :P]
            found.backward[row] = states[place.position + place.tokens - 1, P:]
    return found


class Whitening:
    """Vectors relative to those of other places.

    Args:
        expected: (N, P) of the other places.
    """

    def __init__(self, expected: Vectors) -> None:
        self.mean = expected.mean(0)  # (P,)
        spread = expected.astype(np.float64) - self.mean
        variances, axes = np.linalg.eigh(spread.T @ spread / len(expected))
        self.axes = axes / np.sqrt(variances + RIDGE * variances.mean() + 1e-12)  # (P, P)

    def __call__(self, expected: Vectors) -> Vectors:
        """(N, P) -> (N, P), unit length."""
        return normalize(np.asarray((expected - self.mean) @ self.axes, np.float32))


def expected_elsewhere(elmo: Elmo, lines: Iterable[str], use: Use | None = None) -> Vectors:
    """What is expected (N, P) where words of the lines stand, without their most frequent ones."""
    sentences = elmo.sentences(lines)
    counts = Counter(word.casefold() for words in sentences for word in words)
    common = {word for word, _ in counts.most_common(COMMON_WORDS)}
    places = [
        [i for i, w in enumerate(words) if w.isalpha() and w.casefold() not in common]
        or list(range(len(words)))
        for words in sentences
    ]
    P = elmo.config.width // 2
    found = [
        states[own, :P] + states[own, P:]
        for own, states in zip(places, _read(elmo, sentences, use), strict=True)
    ]
    return normalize(np.concatenate(found))


def align(corpora: Sequence[Vectors]) -> Vectors:
    """What to add to each corpus' vectors so that all have the mean of all, (corpora, P).

    What places of other words have in common in one corpus and not in the other is the kind of
    text, not the word.

    Args:
        corpora: what is expected elsewhere in each, (N, P).
    """
    means = np.stack([vectors.mean(0) for vectors in corpora])
    shifts: Vectors = means.mean(0) - means
    return shifts


def _read(elmo: Elmo, sentences: Iterable[list[str]], use: Use | None) -> Iterator[Vectors]:
    """Expected states (T, 2P) of each; warns of a script that the model does not know."""
    words = sentences if elmo.lexicon is None else elmo.lexicon.watch(sentences)
    if use is None:
        return elmo.runtime.stream(words, expected_states)
    return (
        states
        for part in in_windows(words, len, SLICE_TOKENS)
        for states in use(partial(_read_part, elmo, part), sum(map(len, part)))
    )


def _read_part(elmo: Elmo, sentences: Sequence[list[str]]) -> list[Vectors]:
    return list(elmo.runtime.stream(sentences, expected_states))
