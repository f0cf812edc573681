"""How contextual each layer is, after Ethayarajh (2019): three measures and what chance gives.

    self-similarity     mean cosine between occurrences of one word: 1 is no context at all
    intra-sentence      mean cosine between a word and the mean of its sentence
    explained variance  share of a word's occurrences that one direction explains: the best any
                        static vector could do
    anisotropy          mean cosine between random occurrences of any words: what crowding gives

Shapes: N occurrences, T words of a sentence, D width; everything for one layer at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from relmo.elmo import Elmo
from relmo.errors import ConfigError, TextError
from relmo.lab.probes.find import find_files
from relmo.lab.probes.outcome import Outcome, data_facts
from relmo.progress import progress
from relmo.runtime.pooling import normalize
from relmo.text.documents import read_documents
from relmo.types import Vectors

Words = Sequence[str]
SENTENCES = 3000
"""Of the text, from its beginning."""
LEAST, MOST = 5, 100
"""Occurrences of a word: fewer say little, more cost time."""
RANDOM = 2000
"""Occurrences from which anisotropy is measured."""


def probe_intrinsic(
    elmo: Elmo,
    data: Path,
    *,
    vectors: Path | None = None,
    cache: Path | None = None,
    seed: int = 0,
) -> Outcome:
    """Measure a model on the text files of a folder; nothing is trained and nothing kept."""
    if vectors is not None:
        raise ConfigError("static vectors know no context: their self-similarity is 1")
    files = find_files(data, "*.txt")
    if not files:
        raise ConfigError(f"{data}: no .txt file is there or below; give a folder with plain text")
    lines = (line for path in files for document in read_documents(path) for line in document)
    sentences = list(islice(filter(None, _sentences(elmo, lines)), SENTENCES))
    results = measure_layers(elmo, sentences, seed)
    counts = {"text": {name: int(results.pop(name)) for name in ("words", "tokens")}}
    return Outcome(data_facts(data, counts, files), {"sentences": len(sentences)}, results)


def _sentences(elmo: Elmo, lines: Iterable[str]) -> Iterator[list[str]]:
    for line in lines:
        yield from elmo.sentences([line])


def measure_layers(elmo: Elmo, sentences: Sequence[Words], seed: int = 0) -> dict[str, float]:
    """<measure>_layer_<number> -> value, over words that stand in several of the sentences."""
    table, spans = read_all(elmo, sentences)
    rng = np.random.default_rng(seed)
    rows = rows_by_word(sentences, rng)
    if not rows:
        raise TextError(f"no word stands in {LEAST} sentences or more; give more text")
    some = rng.permutation(table.shape[1])[:RANDOM]
    results: dict[str, float] = {}
    for layer, found in enumerate(table):
        vectors = found.astype(np.float32)  # (N, D)
        units = normalize(vectors)
        values = {
            "self_similarity": [mean_cosine(units[each]) for each in rows],
            "intra_sentence": [_to_mean(units[a:b], vectors[a:b]) for a, b in spans],
            "explained_variance": [explained_variance(vectors[each]) for each in rows],
            "anisotropy": [mean_cosine(units[some])],
        }
        results |= {
            f"{name}_layer_{layer}": round(float(np.mean(v)), 6) for name, v in values.items()
        }
    return results | {"words": float(len(rows)), "tokens": float(table.shape[1])}


def read_all(elmo: Elmo, sentences: Sequence[Words]) -> tuple[Vectors, list[tuple[int, int]]]:
    """All vectors (L + 1, N, D) in float16, and where each sentence stands among them."""
    ends = np.cumsum([0, *map(len, sentences)]).tolist()
    spans = list(pairwise(ends))
    table = np.empty((elmo.config.num_layers, ends[-1], elmo.config.width), np.float16)
    stream = elmo.embed_stream(map(list, sentences), dtype="float16")
    with closing(progress(stream, len(sentences), "sentences", show=True)) as shown:
        for (first, past), vectors in zip(spans, shown, strict=True):  # (L + 1, T, D)
            table[:, first:past] = vectors
    return table, [(first, past) for first, past in spans if past - first > 1]


def rows_by_word(sentences: Sequence[Words], rng: np.random.Generator) -> list[np.ndarray]:
    """Places of a word's occurrences, one per sentence, LEAST to MOST of them, drawn at random."""
    found: dict[str, list[int]] = defaultdict(list)
    place = 0
    for words in sentences:
        met = set()
        for word in words:
            if word not in met:
                found[word].append(place)
                met.add(word)
            place += 1
    enough = [np.array(places) for _, places in sorted(found.items()) if len(places) >= LEAST]
    return [rng.permutation(places)[:MOST] for places in enough]


def mean_cosine(units: Vectors) -> float:
    """Mean cosine between different rows of unit vectors (N, D)."""
    n = len(units)
    total = units.sum(0, dtype=np.float64)
    return float((total @ total - n) / (n * (n - 1)))


def explained_variance(vectors: Vectors) -> float:
    """Share of the squared lengths of (N, D) along the direction that has most of them."""
    rows = vectors.astype(np.float64)
    powers = np.linalg.eigvalsh(rows @ rows.T)  # (N,), rising
    return float(powers[-1] / max(powers.sum(), 1e-12))


def _to_mean(units: Vectors, vectors: Vectors) -> float:
    """Mean cosine between a sentence's words, unit (T, D), and the mean of their vectors."""
    return float((units @ normalize(vectors.mean(0))).mean())
