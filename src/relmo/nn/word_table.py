"""Word ids -> token vector: the first layer of a model with a fixed word list instead of a CNN."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from relmo.config import WordTableConfig
from relmo.nn.uninitialized import Embedding


class WordTable(nn.Module):
    """One stored vector per word: (N,) ids -> (N, P)."""

    def __init__(self, config: WordTableConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config.num_words, config.width)

    def forward(self, words: Tensor) -> Tensor:
        """Token vectors of the words, (N,) -> (N, P)."""
        vectors: Tensor = self.embedding(words)
        return vectors


def initialize(module: WordTable, generator: torch.Generator) -> None:
    """Fill a fresh table at random."""
    nn.init.normal_(module.embedding.weight, 0.0, 1.0, generator=generator)
