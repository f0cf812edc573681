"""Text -> the vector that an index compares.

sentences -> tokens -> one layer of ELMo -> mean weighted by rarity -> `Isotropy`
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np

from relmo.elmo import Elmo
from relmo.errors import ConfigError
from relmo.layers import LayerChoice
from relmo.progress import progress
from relmo.search.background import ENOUGH, make_background
from relmo.search.isotropy import Isotropy
from relmo.search.settings import Layer, Settings
from relmo.search.word_weights import WordWeights
from relmo.types import Vectors

_LENGTH = struct.Struct("<Q")


class Encoder:
    """A model, the weights of words and the common part that is taken out."""

    def __init__(
        self, elmo: Elmo, layer: Layer, weights: WordWeights, isotropy: Isotropy | None
    ) -> None:
        self.elmo, self.weights, self.isotropy = elmo, weights, isotropy
        self.layer = layer
        self._sample: dict[str, Vectors] = {}  # what it was fitted to need not be read again
        self._read: LayerChoice = "all" if layer == "bottom" else layer

    @classmethod
    def fit(
        cls,
        elmo: Elmo,
        settings: Settings,
        sample: Sequence[str],
        show_progress_bar: bool = False,
    ) -> Encoder:
        """Make one from a sample of the passages that it will read."""
        weights = WordWeights.uniform()
        if settings.weighting == "vocabulary" and elmo.lexicon is not None:
            weights = WordWeights.of_lexicon(elmo.lexicon, settings.weight_at)
        elif settings.weighting != "none":  # a model without a word list counts in the sample
            weights = WordWeights.counted(elmo.sentences(sample), settings.weight_at)
        encoder = cls(elmo, settings.layer, weights, None)
        vectors = encoder._read_all(sample, show_progress_bar)  # (N, D)
        encoder._sample = dict(zip(sample, vectors, strict=True))
        background = encoder._background() if len(sample) < ENOUGH else None
        encoder.isotropy = Isotropy.fit(vectors, settings.isotropy, settings.remove, background)
        return encoder

    def _background(self) -> Vectors | None:
        """Vectors of texts about nothing, (M, D); None where the model has no word list."""
        texts = [] if self.elmo.lexicon is None else make_background(self.elmo.lexicon)
        return self._read_all(texts) if texts else None

    def encode(self, texts: Sequence[str]) -> Vectors:
        """One vector of length one per text, (N, D)."""
        assert self.isotropy is not None
        return self.isotropy.apply(self.pooled(texts))

    def pooled(self, texts: Sequence[str]) -> Vectors:
        """Weighted means of the texts' tokens, (N, D); zeros for a text without words."""
        unread = [text for text in texts if text not in self._sample]
        read = iter(self._read_all(unread))
        rows = [self._sample[text] if text in self._sample else next(read) for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self.elmo.config.width), np.float32)

    def _read_all(self, texts: Sequence[str], show_progress_bar: bool = False) -> Vectors:
        parts = [self.elmo.sentences([text]) for text in texts]
        stream = self.elmo.embed_stream(
            (sentence for text in parts for sentence in text), layers=self._read
        )
        result = np.zeros((len(parts), self.elmo.config.width), dtype=np.float32)
        rows = zip(result, parts, strict=True)
        with closing(progress(rows, len(parts), "sample", show_progress_bar)) as shown:
            for row, sentences in shown:
                row[:] = self._mean(sentences, stream)
        return result

    def _mean(self, sentences: list[list[str]], stream: Iterator[Vectors]) -> Vectors:
        total, weight = np.zeros(self.elmo.config.width, np.float32), 0.0
        for words in sentences:
            vectors = next(stream)  # (T, D), or (L + 1, T, D)
            if vectors.ndim == 3:
                vectors = vectors[:2].mean(0)  # (T, D)
            each = self.weights.of(words)  # (T,)
            total += each @ vectors
            weight += float(each.sum())
        return total / weight if weight else total

    # ── keeping ─────────────────────────────────────────────────────────────────────────────

    def to_bytes(self, settings: Settings) -> bytes:
        """What was fitted; weights that the model's own list gives are not kept."""
        assert self.isotropy is not None
        fitted = self.isotropy.to_bytes()
        from_list = settings.weighting == "vocabulary" and self.elmo.lexicon is not None
        weights = b"" if from_list else self.weights.to_bytes()
        return _LENGTH.pack(len(fitted)) + fitted + weights

    @classmethod
    def from_bytes(cls, elmo: Elmo, settings: Settings, data: bytes) -> Encoder:
        """What was kept, for the same model."""
        if elmo.fingerprint() != settings.fingerprint:
            raise ConfigError(
                f"the index was made with another model than {elmo.config.name!r} (or at another "
                f"precision): its vectors cannot be compared; use {settings.model}, or index again"
            )
        (length,) = _LENGTH.unpack_from(data)
        end = _LENGTH.size + length
        isotropy = Isotropy.from_bytes(data[_LENGTH.size : end])
        if len(data) > end:
            weights = WordWeights.from_bytes(data[end:])
        elif elmo.lexicon is not None:
            weights = WordWeights.of_lexicon(elmo.lexicon, settings.weight_at)
        else:
            raise ConfigError(f"{settings.model} has lost its word list, vocab.txt; put it back")
        return cls(elmo, settings.layer, weights, isotropy)
