"""Text -> the unit-length vector that an index compares.

    sentences -> tokens -> one layer of ELMo -> mean weighted by word rarity -> `IsotropyTransform`

Word weights and transform are fitted once, when an index is created, to a sample of its passages,
and stored with it: the vector of a passage never depends on what is added later.
"""

from __future__ import annotations

import dataclasses
import heapq
import io
import json
import math
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from relmo.elmo import Elmo
from relmo.errors import ConfigError
from relmo.layers import OneLayer
from relmo.progress import progress
from relmo.runtime.pooling import normalize, pool
from relmo.search.lexical import Fusion
from relmo.search.settings import IndexSettings, IsotropyMethod
from relmo.text.lexicon import Lexicon
from relmo.types import Vectors

SAMPLE_PASSAGES = 2048
"""Passages that an encoder is fitted to."""
PRIOR_BELOW = 1000
"""A sample with fewer passages is supplemented by random texts."""
FITTING = "passages read to fit the index"
"""What its progress says."""
_LENGTH = struct.Struct("<Q")


@dataclass(eq=False, slots=True)
class PassageEncoder:
    """A model, the weights of words, and the transform that removes what all vectors share."""

    elmo: Elmo
    layer: OneLayer
    weights: WordWeights
    isotropy: IsotropyTransform | None = None
    _sample: dict[str, Vectors] = field(default_factory=dict)
    """Vectors known from fitting, not computed twice."""

    fusion: ClassVar = Fusion()
    """How its vectors and words are joined."""

    @property
    def width(self) -> int:
        """D, of a vector."""
        return self.elmo.width

    @classmethod
    def fit(
        cls,
        elmo: Elmo,
        settings: IndexSettings,
        sample: Sequence[str],
        show_progress_bar: bool = False,
    ) -> PassageEncoder:
        """Fit an encoder to a sample of the passages that it will encode."""
        weights = WordWeights()
        if settings.weighting == "vocabulary" and elmo.lexicon is not None:
            weights = WordWeights.from_lexicon(elmo.lexicon, settings.weight_at)
        elif settings.weighting != "none":  # a model without a vocabulary counts in the sample
            weights = WordWeights.from_sentences(elmo.sentences(sample), settings.weight_at)
        encoder = cls(elmo, settings.layer, weights)
        vectors = encoder.pooled(sample, show_progress_bar)  # (N, D)
        texts = random_texts(elmo.lexicon) if len(sample) < PRIOR_BELOW else []
        prior = encoder.pooled(texts) if texts else None  # (M, D)
        encoder._sample = dict(zip(sample, vectors, strict=True))
        encoder.isotropy = IsotropyTransform.fit(vectors, settings.isotropy, settings.remove, prior)
        return encoder

    def encode(self, texts: Sequence[str], terms: Sequence[Sequence[str]] | None = None) -> Vectors:
        """One unit-length vector per text, (N, D); zeros for a text without words.

        Terms, which other encoders read, change nothing.
        """
        assert self.isotropy is not None
        return self.isotropy.apply(self.pooled(texts))

    def pooled(self, texts: Sequence[str], show_progress_bar: bool = False) -> Vectors:
        """Weighted means of the texts' tokens, (N, D); zeros for a text without words."""
        zero = np.zeros(self.elmo.config.width, np.float32)
        known = [self._sample.get(text, zero) for text in texts]
        result = np.array(known, np.float32).reshape(-1, len(zero))  # (N, D)
        parts = [[] if text in self._sample else self.elmo.sentences([text]) for text in texts]
        stream = self.elmo.embed_stream((s for part in parts for s in part), layers=self.layer)
        rows = zip(result, parts, strict=True)
        with closing(progress(rows, len(parts), FITTING, show_progress_bar)) as shown:
            for row, sentences in shown:
                if tokens := [next(stream) for _ in sentences]:  # each (T, D)
                    weights = self.weights.of(word for words in sentences for word in words)
                    row[:] = pool(np.concatenate(tokens), "mean", weights)
        return result

    def to_bytes(self, settings: IndexSettings) -> bytes:
        """What was fitted; weights that come from the model's vocabulary are not stored."""
        assert self.isotropy is not None
        matrix = io.BytesIO()
        np.save(matrix, np.vstack([self.isotropy.mean, self.isotropy.matrix]), allow_pickle=False)
        weights = b""
        if settings.weighting != "vocabulary" or self.elmo.lexicon is None:
            weights = json.dumps(dataclasses.astuple(self.weights)).encode()
        return _LENGTH.pack(len(matrix.getvalue())) + matrix.getvalue() + weights

    @classmethod
    def from_bytes(cls, elmo: Elmo, settings: IndexSettings, data: bytes) -> PassageEncoder:
        """Read what `to_bytes` wrote; the model must be the same."""
        check_model(elmo.config.name, elmo.fingerprint(), settings)
        (length,) = _LENGTH.unpack_from(data)
        end = _LENGTH.size + length
        shape = 1 + elmo.config.width, elmo.config.width
        rows = read_array(data[_LENGTH.size : end], "transform", "f", shape)
        if len(data) > end:
            weights = WordWeights(*json.loads(data[end:]))
            if not np.isfinite([*weights.frequencies.values(), weights.rest, weights.a]).all():
                raise ValueError("its word weights are not numbers")
        elif elmo.lexicon is not None:
            weights = WordWeights.from_lexicon(elmo.lexicon, settings.weight_at)
        else:
            raise ConfigError(f"{settings.model} lacks its vocabulary file vocab.txt; restore it")
        return cls(elmo, settings.layer, weights, IsotropyTransform(rows[0], rows[1:]))


def check_model(name: str, fingerprint: str, settings: IndexSettings) -> None:
    """Raise ConfigError unless an index was built with the model that has this fingerprint."""
    if fingerprint != settings.fingerprint:
        raise ConfigError(
            f"the index was built with another model than {name!r}, or at another precision, so "
            f"vectors cannot be compared; use {settings.model}, or build the index again"
        )


def read_array(data: bytes, what: str, kind: str, shape: tuple[int, int | None]) -> NDArray[Any]:
    """What `numpy.save` wrote: finite numbers of this type and shape, else ValueError.

    Args:
        data: as it was written.
        what: the index's own that it is, for errors: "transform".
        kind: type, or kind of types: "i1", "f".
        shape: rows and columns; None is any number of columns.
    """
    file = io.BytesIO(data)
    np.lib.format.read_magic(file)
    found, _, dtype = np.lib.format.read_array_header_1_0(file)
    is_shape = len(found) == 2 and found[0] == shape[0] and shape[1] in (None, found[1])
    if not is_shape or kind not in (dtype.kind, dtype.str[1:]):  # before memory is taken
        raise ValueError(f"its {what} has the shape {found} and the type {dtype}")
    array: NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
    if not np.isfinite(array).all():
        raise ValueError(f"its {what} contains values that are not numbers")
    return array


def sample_passages(texts: Iterable[str], count: int = SAMPLE_PASSAGES) -> list[str]:
    """The distinct texts with the lowest checksums: a reproducible sample in bounded memory."""
    chosen: dict[str, int] = {}
    for text in texts:
        chosen[text] = zlib.crc32(text.encode("utf-8", "surrogatepass"))
        if len(chosen) >= 2 * count:
            chosen = dict(heapq.nsmallest(count, chosen.items(), key=lambda item: item[1]))
    lowest = heapq.nsmallest(count, chosen.items(), key=lambda item: item[1])
    return [text for text, _ in sorted(lowest, key=lambda item: (-item[1], item[0]))]


# ── word weights ─────────────────────────────────────────────────────────────────────────────────

EULER = 0.5772
COUNTED_WORDS = 20_000
"""Most frequent words whose counts are stored; rarer words get a weight near 1 anyway."""


@dataclass(frozen=True, slots=True)
class WordWeights:
    """How much each word contributes to the vector of a passage: frequent words little.

        weight = a / (a + p)        p the word's relative frequency (Arora et al. 2017)

    p is estimated from the model's vocabulary, which is sorted by count: by Zipf's law the word of
    rank r has a frequency near 1 / (r ln V). Or it is counted in the indexed passages.
    """

    frequencies: dict[str, float] = field(default_factory=dict)
    rest: float = 0.0
    """The frequency of any other word."""
    a: float = 0.0
    """The frequency of a word with weight 1/2; 0 gives every word the weight 1."""

    def of(self, words: Iterable[str]) -> Vectors:
        """Weights of words in order, (T,)."""
        if self.a == 0:
            return np.array([1.0 for _ in words], dtype=np.float32)
        return np.array([self.a / (self.a + self._frequency(w)) for w in words], dtype=np.float32)

    def _frequency(self, word: str) -> float:
        """Of the word as written, else in lower case, else capitalized."""
        forms = (word, word.lower(), word.capitalize())
        return next((self.frequencies[f] for f in forms if f in self.frequencies), self.rest)

    @classmethod
    def from_lexicon(cls, lexicon: Lexicon, a: float) -> WordWeights:
        """Estimate frequencies from ranks in a vocabulary sorted by count."""
        scale = math.log(len(lexicon)) + EULER
        frequencies = {word: 1 / ((rank + 1) * scale) for rank, word in enumerate(lexicon.words)}
        return cls(frequencies, 1 / (len(lexicon) * scale), a)

    @classmethod
    def from_sentences(cls, sentences: Iterable[Iterable[str]], a: float) -> WordWeights:
        """Count words in sentences, ignoring case."""
        counts = Counter(word.lower() for sentence in sentences for word in sentence)
        total = max(counts.total(), 1)
        frequencies = {word: count / total for word, count in counts.most_common(COUNTED_WORDS)}
        return cls(frequencies, 1 / total, a)


# ── isotropy ─────────────────────────────────────────────────────────────────────────────────────

Exact = NDArray[np.float64]
RIDGE = 1e-3
"""Variance relative to the largest below which a direction is treated as noise."""
SHRINKAGE = 20
"""Number of passages whose mean is trusted by half: the mean of few texts is those texts."""
PRIOR_PASSAGES = 100
"""Number of passages that the prior counts as."""
RANDOM_TEXTS, RANDOM_WORDS, RANDOM_VOCABULARY = 512, 20, 20_000


@dataclass(frozen=True, slots=True)
class IsotropyTransform:
    """vector = normalize((x - mean) @ matrix), which spreads vectors over all directions.

    ELMo's vectors share a large common component: two unrelated texts have a high cosine. It is
    estimated from a sample of passages and removed:

        mean         subtract the mean
        directions   and remove the directions of largest variance, which reflect style and word
                     frequency more than meaning (Mu and Viswanath 2018)
        whiten       and scale all directions to about the same variance

    A small sample does not show the common component; random texts then serve as a prior.
    """

    mean: Vectors  # (D,)
    matrix: Vectors  # (D, D)

    @classmethod
    def fit(
        cls,
        sample: Vectors,
        method: IsotropyMethod = "whiten",
        remove: int = 12,
        prior: Vectors | None = None,
    ) -> IsotropyTransform:
        """Fit to the vectors of a sample, (N, D); estimates from a small sample are shrunk.

        Args:
            sample: vectors of passages.
            method: what to remove.
            remove: number of directions, for "directions".
            prior: vectors of random texts, (M, D), which count as PRIOR_PASSAGES passages.
        """
        N, D = sample.shape
        mean: Exact = np.zeros(D)
        scale, basis = np.ones(D), np.eye(D)
        if method != "none" and (N or prior is not None):
            mean, covariance, count = _moments(sample, prior)
            if method != "mean":
                variance, basis = np.linalg.eigh(covariance)  # ascending; columns of (D, D)
            if method == "whiten":
                ridge = RIDGE + (0.0 if prior is not None else (SHRINKAGE / N) ** 2)
                largest = max(float(variance[-1]), 1e-12)
                scale = 1 / np.sqrt(np.maximum(variance, 0) / largest + ridge)
            elif method == "directions":
                scale[D - min(remove, count // SHRINKAGE, D) :] = 0
        matrix = (basis * scale) @ basis.T  # (D, D): rotate, scale, rotate back
        return cls(mean.astype(np.float32), matrix.astype(np.float32))

    def apply(self, vectors: Vectors) -> Vectors:
        """(N, D) -> unit-length rows (N, D); a zero row, from a text without words, stays zero."""
        changed = np.asarray((vectors - self.mean) @ self.matrix, dtype=np.float32)  # (N, D)
        changed[~vectors.any(1)] = 0
        return normalize(changed)


def _moments(sample: Vectors, prior: Vectors | None) -> tuple[Exact, Exact, int]:
    """Mean (D,) and covariance (D, D) of passages, and the number of vectors behind them."""
    N = len(sample)
    if prior is None:
        mean, covariance = _mean_and_covariance(sample)
        return mean * (N / (N + SHRINKAGE)), covariance, N
    mean, covariance = _mean_and_covariance(prior)
    if N:
        share = N / (N + PRIOR_PASSAGES)
        own = _mean_and_covariance(sample)
        mean = (1 - share) * mean + share * own[0]
        covariance = (1 - share) * covariance + share * own[1]
    return mean, covariance, N + len(prior)


def _mean_and_covariance(vectors: Vectors) -> tuple[Exact, Exact]:
    centered = (vectors - vectors.mean(0)).astype(np.float64)  # (N, D)
    return vectors.mean(0, dtype=np.float64), centered.T @ centered / len(vectors)


def random_texts(lexicon: Lexicon | None) -> list[str]:
    """Texts of words drawn from a vocabulary by frequency, the same each time; none without one.

    An index of a few notes has too few passages to tell what they mean from what all texts share.
    Random texts have the shared part only.
    """
    known = [] if lexicon is None else lexicon.words[:RANDOM_VOCABULARY]
    words = [word for word in known if not word.startswith("<")]
    if not words:
        return []
    weights = 1 / (np.arange(len(words)) + 3.0)  # Zipf's law
    generator = np.random.default_rng(0)
    size = (RANDOM_TEXTS, RANDOM_WORDS)
    drawn = generator.choice(len(words), size=size, p=weights / weights.sum())
    return [" ".join(words[each] for each in row) for row in drawn]
