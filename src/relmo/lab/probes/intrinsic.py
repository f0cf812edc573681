"""How contextual each layer is, after Ethayarajh (2019): three measures and their baseline.

    self-similarity     mean cosine between occurrences of one word: 1 means no context at all
    intra-sentence      mean cosine between a word and the mean of its sentence
    explained variance  share of a word's occurrences that one direction explains: the best that
                        any static vector could do
    anisotropy          mean cosine between random occurrences of any words: the baseline

Shapes: N occurrences, T words of a sentence, D width; everything for one layer at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from relmo.elmo import Elmo
from relmo.errors import ConfigError, TextError
from relmo.lab.probes.inputs import ProbeInputs, ProbeResult, every_word, find_files, read_layers
from relmo.progress import progress
from relmo.runtime.pooling import normalize
from relmo.text.documents import read_documents
from relmo.types import Vectors

SENTENCES = 3000
"""Sentences read, from the beginning of the text."""
MIN_OCCURRENCES, MAX_OCCURRENCES = 5, 100
"""Of a word: fewer say little, more cost time."""
RANDOM_OCCURRENCES = 2000
"""From which anisotropy is measured."""


def probe_intrinsic(inputs: ProbeInputs) -> ProbeResult:
    """Measure a model on the .txt files of a folder; nothing is trained."""
    if inputs.vectors is not None:
        raise ConfigError("static vectors have no context: their self-similarity is always 1")
    files = find_files(inputs.data, "*.txt")
    if not files:
        raise ConfigError(f"{inputs.data}: no .txt file here or below; give a folder of plain text")
    lines = (line for path in files for document in read_documents(path) for line in document)
    split = (words for line in lines for words in inputs.elmo.sentences([line]) if words)
    sentences = list(progress(islice(split, SENTENCES), SENTENCES, "sentences split", show=True))
    scores = measure_layers(inputs.elmo, sentences, inputs.seed, inputs.cache)
    counts = {"text": {name: int(scores.pop(name)) for name in ("words", "tokens")}}
    return ProbeResult(inputs.describe(counts, files), {"sentences": len(sentences)}, scores)


def measure_layers(
    elmo: Elmo, sentences: Sequence[Sequence[str]], seed: int = 0, cache: Path | None = None
) -> dict[str, float]:
    """MEASURE_layer_NUMBER -> value, over words that occur in several of the sentences."""
    rng = np.random.default_rng(seed)
    rows = rows_by_word(sentences, rng)
    if not rows:
        raise TextError(f"no word occurs in {MIN_OCCURRENCES} or more sentences; give more text")
    table = read_layers(elmo, every_word([tuple(words) for words in sentences]), cache)
    bounds = pairwise(np.cumsum([0, *map(len, sentences)]).tolist())
    spans = [(first, past) for first, past in bounds if past - first > 1]
    some = rng.permutation(len(table))[:RANDOM_OCCURRENCES]  # rows of any words
    scores: dict[str, float] = {}
    for layer in progress(range(table.shape[1]), table.shape[1], "layers measured", show=True):
        vectors = table[:, layer].astype(np.float32)  # (N, D)
        units = normalize(vectors)  # (N, D)
        to_mean = [units[a:b] @ normalize(vectors[a:b].mean(0)) for a, b in spans]  # each (T,)
        values = {
            "self_similarity": [mean_cosine(units[each]) for each in rows],
            "intra_sentence": [float(cosines.mean()) for cosines in to_mean],
            "explained_variance": [explained_variance(vectors[each]) for each in rows],
            "anisotropy": [mean_cosine(units[some])],
        }
        for name, found in values.items():
            scores[f"{name}_layer_{layer}"] = round(float(np.mean(found)), 6)
    return scores | {"words": float(len(rows)), "tokens": float(len(table))}


def rows_by_word(sentences: Sequence[Sequence[str]], rng: np.random.Generator) -> list[np.ndarray]:
    """Rows of each word's occurrences, one per sentence, a random sample of a frequent word's."""
    found: dict[str, list[int]] = defaultdict(list)
    first = 0
    for words in sentences:
        for word in dict.fromkeys(words):
            found[word].append(first + words.index(word))
        first += len(words)
    frequent = [found[word] for word in sorted(found) if len(found[word]) >= MIN_OCCURRENCES]
    return [rng.permutation(np.array(rows))[:MAX_OCCURRENCES] for rows in frequent]


def mean_cosine(units: Vectors) -> float:
    """Mean cosine between different rows of unit vectors (N, D)."""
    n = len(units)
    total = units.sum(0, dtype=np.float64)  # (D,)
    return float((total @ total - n) / (n * (n - 1)))


def explained_variance(vectors: Vectors) -> float:
    """Share of the squared lengths of (N, D) along their principal direction."""
    rows = vectors.astype(np.float64)  # (N, D)
    powers = np.linalg.eigvalsh(rows @ rows.T)  # (N,), ascending
    return float(powers[-1] / max(powers.sum(), 1e-12))
