"""The biLM's layers at annotated words, and the ways to read one vector per word from them.

A probe marks its words as spans of sentences. Only their vectors are kept, (N, L + 1, D) float16,
so memory grows with the annotations, not with the corpus. With a cache folder the table is stored:

    FOLDER/<key>.npy        the key is a hash of the model, the sentences and the spans
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from relmo.elmo import Elmo
from relmo.files import make_folder, replacing
from relmo.progress import progress
from relmo.tasks.static_vectors import read_vectors
from relmo.types import Vectors

ProbeWords = tuple[str, ...]
"""A tokenized sentence."""
ProbeSpan = tuple[int, int]
"""Positions of the first word and of the one after the last."""
ProbeText = tuple[Sequence[ProbeWords], Sequence[Sequence[ProbeSpan]]]
"""Sentences, and the spans of each."""
Table = NDArray[np.float16]
"""(N, L + 1, D): all layers of N spans."""
MEAN, STATIC = "mean", "static"
ADVICE = "free some space, or choose another folder"
Name = TypeVar("Name", bound=str)


def read_layers(
    elmo: Elmo,
    sentences: Sequence[ProbeWords],
    spans: Sequence[Sequence[ProbeSpan]],
    cache: Path | None,
) -> Table:
    """All layers of each span, in order: the mean over its words.

    Args:
        elmo: the model.
        sentences: embedded independently; those without spans are skipped.
        spans: of each sentence.
        cache: folder to load the table from and store it in; None disables caching.
    """
    pairs = [(words, found) for words, found in zip(sentences, spans, strict=True) if found]
    shape = sum(len(found) for _, found in pairs), elmo.config.num_layers, elmo.config.width
    if cache is None:
        return _fill(elmo, pairs, np.empty(shape, np.float16))
    place = cache / f"{_key(elmo, pairs)}.npy"
    table = _kept(place, shape)
    if table is None:
        make_folder(cache)
        table = _fill(elmo, pairs, np.empty(shape, np.float16))
        with replacing(place, ADVICE) as temporary, temporary.open("wb") as file:
            np.save(file, table)  # to a file: given a name it would add a suffix
    return table


def _kept(place: Path, shape: tuple[int, ...]) -> Table | None:
    """A table from an earlier run; None if it is missing or damaged, so that it is rebuilt."""
    try:
        table: Table = np.load(place)
    except (FileNotFoundError, ValueError, EOFError):
        return None
    return table if table.shape == shape and table.dtype == np.float16 else None


def every_word(sentences: Sequence[ProbeWords]) -> ProbeText:
    """The sentences with each of their words as a span."""
    return sentences, [[(i, i + 1) for i in range(len(words))] for words in sentences]


def each_reading(tables: Mapping[Name, Table]) -> Iterator[tuple[str, dict[Name, Vectors]]]:
    """One vector per span, (N, D), by every reading: each single layer, then the layers' mean."""
    num_layers = next(iter(tables.values())).shape[1]
    for reading in (*(f"layer_{number}" for number in range(num_layers)), MEAN):
        yield reading, {name: read_one(table, reading) for name, table in tables.items()}


def read_one(table: Table, reading: str) -> Vectors:
    """The vectors (N, D) of one reading, "layer_0" ... "mean"."""
    if reading == MEAN:
        mean: Vectors = table.mean(1, dtype=np.float32)  # a float32 copy of the table is too large
        return mean
    return table[:, int(reading.removeprefix("layer_"))].astype(np.float32)


def span_sense_vectors(
    elmo: Elmo, sentences: Sequence[ProbeWords], spans: Sequence[Sequence[ProbeSpan]]
) -> Vectors:
    """`Elmo.sense_vectors` of each span, (N, F): the mean over its words."""
    found = zip(elmo.sense_vectors(sentences), spans, strict=True)
    return np.stack([words[start:end].mean(0) for words, own in found for start, end in own])


def read_static(path: Path, texts: Mapping[Name, ProbeText]) -> dict[Name, Vectors]:
    """Static vectors (N, width) of each span: the mean over its words.

    Args:
        path: file in GloVe's or word2vec's text format.
        texts: name -> sentences, and the spans of each.
    """
    spans = {
        name: [words[start:end] for words, own in zip(*text, strict=True) for start, end in own]
        for name, text in texts.items()
    }
    static = read_vectors(path, {w for found in spans.values() for span in found for w in span})
    return {
        name: np.stack([static.table[static.rows(span)].mean(0) for span in found])
        for name, found in spans.items()
    }


def _fill(
    elmo: Elmo, pairs: Sequence[tuple[ProbeWords, Sequence[ProbeSpan]]], table: Table
) -> Table:
    stream = elmo.embed_stream(list(words) for words, _ in pairs)
    row = 0
    with closing(progress(stream, len(pairs), "sentences", show=True)) as shown:
        for vectors, (_, spans) in zip(shown, pairs, strict=True):  # (L + 1, T, D)
            for start, end in spans:
                table[row] = vectors[:, start:end].mean(1)  # (L + 1, D)
                row += 1
    return table


def _key(elmo: Elmo, pairs: Sequence[Any]) -> str:
    digest = hashlib.sha256(f"{elmo.fingerprint()} {elmo.precision}".encode())
    for pair in pairs:
        digest.update(json.dumps(pair).encode() + b"\n")  # escapes what could be mistaken
    return digest.hexdigest()[:24]
