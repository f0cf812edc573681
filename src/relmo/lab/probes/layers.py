"""The biLM's layers of chosen words, and the ways to read one vector per word from them.

A probe names its words by spans of sentences; only their vectors are kept, (N, L + 1, D) float16,
so a corpus costs what is annotated in it. `relmo.vectors.table_cache` keeps the table on disk.
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

Words = tuple[str, ...]
Span = tuple[int, int]
"""First word and the one after the last."""
Spans = tuple[Sequence[Words], Sequence[Sequence[Span]]]
"""Sentences, and spans of each."""
MEAN = "mean"
Part = TypeVar("Part", bound=str)


def read_layers(
    elmo: Elmo, sentences: Sequence[Words], spans: Sequence[Sequence[Span]], cache: Path | None
) -> Table:
    """Layers of each span, in order: the mean of its words' vectors. Sentences without are skipped.

    Args:
        elmo: the model.
        sentences: each is read alone.
        spans: of each sentence.
        cache: folder where the table is kept and looked for; None keeps nothing.
    """
    pairs = [(words, found) for words, found in zip(sentences, spans, strict=True) if found]
    shape = sum(len(found) for _, found in pairs), elmo.config.num_layers, elmo.config.width
    if cache is None:
        return np.concatenate([np.empty((0, *shape[1:]), np.float16), *_read(elmo, pairs)])
    key = table_key(f"{elmo.fingerprint()} {elmo.precision}", pairs)
    facts = {"model": elmo.config.name}
    return cached_table(cache, key, shape, lambda: _read(elmo, pairs), facts)[0]


def readings(num_layers: int) -> list[str]:
    """Names of the ways to read one vector from a table: each layer, and their equal mean."""
    return [*(f"layer_{number}" for number in range(num_layers)), MEAN]


def read_one(table: Table, reading: str) -> Vectors:
    """The vectors (N, D) of one reading."""
    if reading == MEAN:
        mean: Vectors = table.mean(1, dtype=np.float32)
        return mean
    return table[:, int(reading.removeprefix("layer_"))].astype(np.float32)


def read_senses(elmo: Elmo, sentences: Sequence[Words], spans: Sequence[Sequence[Span]]) -> Vectors:
    """`Elmo.sense_vectors` of each span, (N, F): the mean of its words'."""
    found = zip(elmo.sense_vectors(sentences), spans, strict=True)
    return np.stack([words[start:end].mean(0) for words, own in found for start, end in own])


def read_static(path: Path, parts: Mapping[Part, Spans]) -> dict[Part, Vectors]:
    """Static vectors (N, width) of each span of each part: the mean of its words' vectors.

    Args:
        path: GloVe's or word2vec's file.
        parts: name -> sentences, and the spans of each.
    """
    words = {
        part: [words[start:end] for words, found in zip(*each, strict=True) for start, end in found]
        for part, each in parts.items()
    }
    static = read_vectors(path, {w for spans in words.values() for span in spans for w in span})
    return {
        part: np.stack([static.table[static.rows(span)].mean(0) for span in spans])
        for part, spans in words.items()
    }


def _read(elmo: Elmo, pairs: Sequence[tuple[Words, Sequence[Span]]]) -> Iterator[Table]:
    """Layers (n, L + 1, D) of the spans of each sentence."""
    stream = elmo.embed_stream(list(words) for words, _ in pairs)
    with closing(progress(stream, len(pairs), "sentences", show=True)) as shown:
        for vectors, (_, spans) in zip(shown, pairs, strict=True):  # (L + 1, T, D)
            means = [vectors[:, start:end].mean(1) for start, end in spans]  # each (L + 1, D)
            yield np.stack(means).astype(np.float16)
