"""Nearest occurrences of a word in context, beside the nearest words without it (Table 4).

The query is one occurrence: a word of a sentence. Its vector is compared with that of the same
word wherever it occurs in a corpus, by sense vectors (`relmo.layers.sense_vectors`) or those of a
layer, or with all words there. Words are also compared without context, by layer 0, which has one
vector for "play".

Shapes: N occurrences of one sentence, D width.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from relmo.elmo import Elmo
from relmo.errors import TextError
from relmo.files import make_folder, sha256
from relmo.layers import LayerChoice, check_one_layer
from relmo.progress import progress, working
from relmo.runtime.pooling import normalize
from relmo.text.documents import find_files, read_documents
from relmo.training.run import write_record

SENTENCES_AT_ONCE = 512
"""Sentences whose sense vectors are in memory at a time."""
MOST_WORDS = 20_000
"""Most frequent words of the corpus that are compared without context."""


class Occurrence(NamedTuple):
    """A word in a sentence, and its similarity to the query."""

    cosine: float
    words: tuple[str, ...]
    """The sentence."""
    position: int


class Neighbors(NamedTuple):
    """What is nearest to a word in a sentence."""

    word: str
    sentence: str
    layer: LayerChoice | None
    """Whose vectors were compared; None for sense vectors."""
    occurrences: list[Occurrence]
    """In context, nearest first."""
    static: list[tuple[str, float]]
    """Words without context, and their cosines."""

    def results(self) -> dict[str, Any]:
        """The nearest words and occurrences as JSON."""
        return {
            "static": [[word, round(cosine, 4)] for word, cosine in self.static],
            "context": [
                [" ".join(o.words), round(o.cosine, 4), o.position] for o in self.occurrences
            ],
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON."""
        query = {"word": self.word, "sentence": self.sentence, "layer": self.layer}
        return {**query, **self.results()}

    def table(self, marks_words: bool) -> Table:
        """The occurrences, their words in bold or, where that cannot be seen, in brackets."""
        by = "sense vectors" if self.layer is None else f"layer {self.layer}"
        table = Table("cosine", f"{self.word!r} in context, by {by}", title_justify="left")
        mark = "[{}]" if marks_words else "{}"
        for cosine, words, position in self.occurrences:
            shown = [Text(word) for word in words]
            shown[position] = Text(mark.format(words[position]), style="bold")
            table.add_row(f"{cosine:.3f}", Text(" ").join(shown))
        return table


def find_neighbors(
    elmo: Elmo,
    word: str,
    sentence: str,
    corpus: str | Path,
    *,
    layer: LayerChoice | None = None,
    count: int = 10,
    any_word: bool = False,
    output: str | Path | None = None,
) -> Neighbors:
    """The nearest occurrences of a word in a file or folder of text, and its nearest words.

    Args:
        elmo: the model.
        word: of the sentence.
        sentence: the word in its context.
        corpus: text to search.
        layer: whose vectors are compared; by default sense vectors, the top layer for any word.
        count: how many to return.
        any_word: compare with all words of the corpus.
        output: folder for the record.
    """
    layer = compared_layer(elmo, layer, any_word)
    words = [token.text for token in elmo.tokens(sentence)]
    position = find_position(words, word)
    files = find_files([corpus])
    with working(f"reading {corpus}"):
        lines = [line for path in files for document in read_documents(path) for line in document]
    sentences = [
        words
        for line in progress(lines, len(lines), "lines split into sentences", show=True)
        for words in elmo.sentences([line])
    ]
    found = nearest_occurrences(
        elmo,
        words,
        position,
        progress(sentences, len(sentences), "sentences searched", show=True),
        layer=layer,
        count=count,
        any_word=any_word,
    )
    common = [w for w, _ in Counter(w for s in sentences for w in s).most_common(MOST_WORDS)]
    with working("comparing words without context"):
        static = nearest_words(elmo, words[position], common, count)
    result = Neighbors(word, " ".join(words), layer, found, static)
    if output is not None:
        record = {
            "task": "neighbors",
            "elmo": {"name": elmo.config.name, "fingerprint": elmo.fingerprint()},
            "word": word,
            "sentence": result.sentence,
            "layer": layer,
            "data": {"files": {path.name: sha256(path) for path in files}, "any_word": any_word},
            "results": result.results(),
        }
        make_folder(Path(output))
        write_record(Path(output) / "run.json", record)
    return result


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
