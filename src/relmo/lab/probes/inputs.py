"""What every probe shares: its inputs, the layers at annotated words, and the result it returns.

A probe marks its words as spans of sentences. Only their vectors are kept, (N, L + 1, D) float16,
so memory grows with the annotations, not with the corpus; `relmo.vectors.table_cache` stores them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from relmo.elmo import Elmo
from relmo.errors import ConfigError
from relmo.files import sha256
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
MEAN = "mean"
COMPRESSIONS = ("", ".gz", ".xz", ".zst")
Name = TypeVar("Name", bound=str)


class ProbeInputs(NamedTuple):
    """What to probe, and on which data."""

    elmo: Elmo
    data: Path
    """Folder with the probe's files, at any depth unless the probe says otherwise."""
    vectors: Path | None = None
    """File of static vectors, in GloVe's or word2vec's text format, to probe beside the layers."""
    cache: Path | None = None
    """Folder in which the layers of the data are kept for the next run."""
    seed: int = 0
    """For what is random; most probes are not."""

    def tables(self, texts: Mapping[Name, ProbeText]) -> dict[Name, Table]:
        """All layers of each span of each text."""
        return {name: read_layers(self.elmo, text, self.cache) for name, text in texts.items()}

    def static(
        self, texts: Mapping[Name, ProbeText], tables: Mapping[Name, Table]
    ) -> dict[Name, Vectors]:
        """Static vectors (N, D) of each span: the mean over its words, else layer 0.

        Layer 0 knows no context; it stands in where there is no file of static vectors.
        """
        if self.vectors is None:
            return {name: read_one(table, "layer_0") for name, table in tables.items()}
        spans = {
            name: [words[start:end] for words, own in zip(*text, strict=True) for start, end in own]
            for name, text in texts.items()
        }
        every = {word for found in spans.values() for span in found for word in span}
        static = read_vectors(self.vectors, every)  # reads no other words
        return {
            name: np.stack([static.table[static.rows(span)].mean(0) for span in found])
            for name, found in spans.items()
        }

    def describe(
        self, counts: Mapping[Any, Mapping[str, int]], files: Iterable[Path]
    ) -> dict[str, Any]:
        """The data of a record: the folder's name, counts per part, checksums of all files."""
        used = [*files, *([] if self.vectors is None else [self.vectors])]
        times = Counter(path.name for path in used)
        checksums = {
            path.name if times[path.name] == 1 else os.path.relpath(path, self.data): {
                "sha256": sha256(path)
            }
            for path in used
        }
        return {"name": self.data.resolve().name, **counts, "files": checksums}


class ProbeResult(NamedTuple):
    """Scores of a probe and what they were computed from."""

    data: dict[str, Any]
    """Names, sizes and checksums of the data files."""
    settings: dict[str, Any]
    """Fixed settings, and those chosen on training or development data."""
    scores: dict[str, float]
    """PART_METRIC_READING -> percent, and what was counted on the way, by names with units."""
    rows: Sequence[tuple[Any, ...]] = ()
    """One for each item, of a probe that judges items."""


def every_word(sentences: Sequence[ProbeWords]) -> ProbeText:
    """The sentences with each of their words as a span."""
    return sentences, [[(i, i + 1) for i in range(len(words))] for words in sentences]


def read_layers(elmo: Elmo, text: ProbeText, cache: Path | None) -> Table:
    """All layers of each span, in order, (N, L + 1, D): the mean over its words.

    Sentences are embedded independently, those without spans not at all. The table is loaded from
    the folder `cache` and stored there; None disables caching.
    """
    pairs = [(words, spans) for words, spans in zip(*text, strict=True) if spans]
    shape = sum(len(spans) for _, spans in pairs), elmo.config.num_layers, elmo.config.width

    def compute() -> Iterator[Table]:
        stream = elmo.embed_stream(list(words) for words, _ in pairs)
        with closing(progress(stream, len(pairs), "sentences read", show=True)) as shown:
            for vectors, (_, spans) in zip(shown, pairs, strict=True):  # (L + 1, T, D)
                means = [vectors[:, start:end].mean(1) for start, end in spans]  # each (L + 1, D)
                yield np.stack(means).astype(np.float16)

    if cache is None:
        return np.concatenate([np.empty((0, *shape[1:]), np.float16), *compute()])
    key = table_key(f"{elmo.fingerprint()} {elmo.precision}", pairs)
    return cached_table(cache, key, shape, compute, {"model": elmo.config.name})[0]


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


def find_files(folder: Path, pattern: str) -> list[Path]:
    """All files at or below a folder whose name matches, compressed or not, sorted by path."""
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder; give the folder with the data files")
    seen: set[Path] = set()
    found: list[Path] = []
    for root, folders, names in os.walk(folder, followlinks=True):
        if (real := Path(root).resolve()) in seen:
            folders.clear()  # links may form a cycle: visit each folder once
            continue
        seen.add(real)
        folders.sort()
        matching = {n for n in names for end in COMPRESSIONS if fnmatchcase(n, pattern + end)}
        found += [Path(root, name) for name in matching]
    return sorted(found)


def need_file(folder: Path, name: str) -> Path:
    """The only file with that name at or below a folder; none or several are an error."""
    found = find_files(folder, name)
    if len(found) != 1:
        names = ", ".join(str(path.relative_to(folder)) for path in found) or "none"
        raise ConfigError(
            f"{folder}: expected exactly one file {name} here or below, found {names}"
        )
    return found[0]
