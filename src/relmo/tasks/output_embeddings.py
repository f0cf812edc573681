"""Rows of a language model's softmax as word vectors: its output embeddings, frozen.

Each row was trained on every context in which its word came, so that it says what kind of word it
is, however rare in a task's own data. They belong to the ELMo model: a task stores nothing of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from relmo.elmo import Elmo
from relmo.errors import ConfigError
from relmo.text.lexicon import UNKNOWN

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
        self.num_words, self.width = elmo.lm.head.weight.shape
        self.unknown_row = int(self._lexicon.rows([UNKNOWN])[0])

    def rows(self, words: Iterable[str]) -> NDArray[np.int64]:
        """Row of each word: as it is written, else in lower case, else that of `<UNK>`."""
        known = self._lexicon
        return known.rows(w if w in known else w.lower() for w in words)

    def __call__(self, rows: Tensor) -> Tensor:
        """Vectors of these rows, (B, T) -> (B, T, P)."""
        weight = self._elmo.lm.head.weight  # (V, P)
        mean, scale = self._center
        vectors: Tensor = (weight[rows] - mean.to(weight.device)) * scale
        return vectors

    @cached_property
    def _center(self) -> tuple[Tensor, float]:
        """The mean of the rows, (P,), and what brings them to `SPREAD`."""
        weight = self._elmo.lm.head.weight
        return weight.mean(0), SPREAD / (weight.std(correction=0).item() or 1.0)
