"""Rows of a language model's softmax as word vectors: its output embeddings, frozen.

Each row was trained on every context in which its word came, so that it says what kind of word it
is, however rare in a task's own data. They belong to the ELMo model: a task stores nothing of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from relmo.elmo import Elmo
from relmo.errors import ConfigError

SPREAD = 0.4
"""Standard deviation of the vectors, about that of GloVe's."""


class OutputEmbeddings:
    """Words -> rows of the softmax -> vectors of width P, centered and scaled."""

    def __init__(self, elmo: Elmo) -> None:
        if not elmo.has_lm or elmo.lexicon is None:
            raise ConfigError(
                "input.output_embeddings takes word vectors from the softmax of the ELMo model, "
                "which has none (lm_head.safetensors, vocab.txt); set it to false, or use another "
                "model"
            )
        self._elmo, self._lexicon = elmo, elmo.lexicon
        weight = elmo.lm.head.weight  # (V, P)
        self.width = weight.shape[1]
        self._mean = weight.mean(0)  # (P,)
        self._scale = SPREAD / (weight.std(correction=0).item() or 1.0)

    def rows(self, words: Iterable[str]) -> NDArray[np.int64]:
        """Row of each word: as it is written, else in lower case, else that of `<UNK>`."""
        known = self._lexicon
        return known.rows(w if w in known else w.lower() for w in words)

    def __call__(self, rows: Tensor) -> Tensor:
        """Vectors of these rows, (B, T) -> (B, T, P)."""
        weight = self._elmo.lm.head.weight
        if self._mean.device != weight.device:
            self._mean = self._mean.to(weight.device)
        vectors: Tensor = (weight[rows] - self._mean) * self._scale
        return vectors
