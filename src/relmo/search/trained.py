"""Text -> the unit-length vector that an index compares, by a trained encoder.

    text -> trained encoder (D,), what it means
         -> its terms -> latent dimensions of the index's own passages (K,), which words it shares
    vector = normalize([meaning; 1.2 * words])      (D + K,)

`encoder.py` does the same with an ELMo that nobody trained to compare texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from relmo.elmo import Elmo
from relmo.runtime.pooling import normalize
from relmo.search.encoder import WordWeights, check_model
from relmo.search.latent import LatentWords, Terms
from relmo.search.lexical import Fusion, make_analyzer
from relmo.search.settings import IndexSettings
from relmo.tasks.encoder.text_encoder import TextEncoder
from relmo.types import Vectors

LATENT_WEIGHT = 1.2
"""Of the latent dimensions beside the trained ones. Chosen on half of Cranfield's queries and on
questions of SQuAD's training part, where 0.7 to 2 are nearly the same."""
SAMPLE_PASSAGES = 8192
"""Passages that the latent dimensions are fitted to."""


@dataclass(eq=False)
class TrainedEncoder:
    """A trained text encoder and the latent dimensions of an index."""

    model: TextEncoder
    latent: LatentWords
    settings: IndexSettings
    fusion: ClassVar = Fusion(share=2.5, feedback=1.0)
    """Trained vectors may say more, and need less help by the best passages, than an ELMo's."""

    @property
    def elmo(self) -> Elmo:
        """The ELMo that the encoder reads with."""
        return self.model.elmo

    @property
    def width(self) -> int:
        """D + K."""
        return self.model.width + self.latent.width

    @cached_property
    def analyze(self) -> Callable[[str], list[str]]:
        """Text -> terms, as in the index."""
        return make_analyzer(self.settings.language)

    @cached_property
    def weights(self) -> WordWeights:
        """Of words, for explanations; searches do without."""
        if self.elmo.lexicon is None:
            return WordWeights()
        return WordWeights.from_lexicon(self.elmo.lexicon, self.settings.weight_at)

    @classmethod
    def fit(
        cls, model: TextEncoder, settings: IndexSettings, sample: Sequence[str]
    ) -> TrainedEncoder:
        """Fit the latent dimensions to a sample of the passages."""
        analyze = make_analyzer(settings.language)
        latent = LatentWords.fit([analyze(text) for text in sample], settings.latent)
        return cls(model, latent, settings)

    def encode(self, texts: Sequence[str], terms: Sequence[Terms] | None = None) -> Vectors:
        """One unit-length vector per text, (N, D + K); zeros for a text without words.

        Args:
            texts: of any length.
            terms: of each text, if they are already known.
        """
        terms = [self.analyze(text) for text in texts] if terms is None else terms
        words = LATENT_WEIGHT * self.latent.vectors(terms)  # (N, K)
        return normalize(np.concatenate([self.model.encode(texts), words], 1, dtype=np.float32))

    def to_bytes(self, settings: IndexSettings) -> bytes:
        """What was fitted."""
        return self.latent.to_bytes()

    @classmethod
    def from_bytes(cls, model: TextEncoder, settings: IndexSettings, data: bytes) -> TrainedEncoder:
        """Read what `to_bytes` wrote; the model must be the same."""
        check_model(model.name, model.fingerprint(), settings)
        latent = LatentWords.from_bytes(data)
        if model.width + latent.width != settings.width:
            raise ValueError(f"its vectors are not of width {settings.width}")
        return cls(model, latent, settings)
