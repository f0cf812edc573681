"""The biLM's layers at annotated words, and the ways to read one vector per word from them.

A probe marks its words as spans of sentences. Only their vectors are kept, (N, L + 1, D) float16,
so memory grows with the annotations, not with the corpus; `relmo.vectors.table_cache` stores them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import numpy as np

from relmo.elmo import Elmo
from relmo.progress import progress
from relmo.tasks.static_vectors import read_vectors
from relmo.types import Vectors
from relmo.vectors.table_cache import Table, cached_table, table_key

ProbeWords = tuple[str, ...]
"""A tokenized sentence."""
ProbeSpan = tuple[int, int]
"""Positions of the first word and of the one after the last."""
ProbeText = tuple[Sequence[ProbeWords], Sequence[Sequence[ProbeSpan]]]
"""Sentences, and the spans of each."""
MEAN, STATIC = "mean", "static"
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
        return np.concatenate([np.empty((0, *shape[1:]), np.float16), *_read(elmo, pairs)])
    key = table_key(f"{elmo.fingerprint()} {elmo.precision}", pairs)
    facts = {"model": elmo.config.name}
    return cached_table(cache, key, shape, lambda: _read(elmo, pairs), facts)[0]


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


def _read(elmo: Elmo, pairs: Sequence[tuple[ProbeWords, Sequence[ProbeSpan]]]) -> Iterator[Table]:
    """Layers (n, L + 1, D) of the spans of each sentence."""
    stream = elmo.embed_stream(list(words) for words, _ in pairs)
    with closing(progress(stream, len(pairs), "sentences", show=True)) as shown:
        for vectors, (_, spans) in zip(shown, pairs, strict=True):  # (L + 1, T, D)
            means = [vectors[:, start:end].mean(1) for start, end in spans]  # each (L + 1, D)
            yield np.stack(means).astype(np.float16)
