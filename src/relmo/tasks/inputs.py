"""Words of a batch -> what a task's model reads, on the device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from relmo.elmo import Elmo
from relmo.nn.blocks.tokens import InputSettings, TokenBatch, TokenInput
from relmo.tasks.static_vectors import StaticVectors

Words = tuple[str, ...]
MAX_LETTERS = 30
"""Letters of a word that a model's own character CNN reads."""


class Letters:
    """Characters of the training data by number: 0 fills up, 1 is any other."""

    def __init__(self, characters: Iterable[str]) -> None:
        self.characters = list(characters)
        self._id_of = {c: i for i, c in enumerate(self.characters, 2)}

    def __len__(self) -> int:
        return len(self.characters) + 2

    def ids(self, word: str) -> list[int]:
        """Of the word's first letters."""
        return [self._id_of.get(c, 1) for c in word[:MAX_LETTERS]]


class Inputs:
    """Makes batches of tokens.

    Args:
        static: vectors of known words.
        letters: of a model that spells, else None.
        layers: (L + 1, B, T, D) of sentences; None for a model without ELMo.
        device: where batches are wanted.
    """

    def __init__(
        self,
        static: StaticVectors,
        letters: Letters | None,
        layers: Callable[[Sequence[Words]], Tensor] | None,
        device: torch.device,
    ) -> None:
        self.static, self.letters, self.layers, self.device = static, letters, layers, device

    def __call__(self, sentences: Sequence[Words]) -> TokenBatch:
        """A batch of sentences."""
        B, T = len(sentences), max(map(len, sentences), default=0)
        static = np.zeros((B, T), np.int64)
        mask = np.zeros((B, T), bool)
        for b, sentence in enumerate(sentences):
            static[b, : len(sentence)] = self.static.rows(sentence)
            mask[b, : len(sentence)] = True
        return TokenBatch(
            static=torch.from_numpy(static).to(self.device),
            letters=None if self.letters is None else self._spell(self.letters, sentences, T),
            layers=None if self.layers is None else self.layers(sentences),
            mask=torch.from_numpy(mask).to(self.device),
        )

    def _spell(self, letters: Letters, sentences: Sequence[Words], T: int) -> Tensor:
        spelled = [[letters.ids(word) for word in sentence] for sentence in sentences]
        C = max((len(ids) for sentence in spelled for ids in sentence), default=1)
        table = np.zeros((len(sentences), T, max(C, 3)), np.int64)  # (B, T, C)
        for b, sentence in enumerate(spelled):
            for t, ids in enumerate(sentence):
                table[b, t, : len(ids)] = ids
        return torch.from_numpy(table).to(self.device)

    def make_module(
        self, settings: InputSettings, elmo_shape: tuple[int, int] | None
    ) -> TokenInput:
        """The module that reads such batches."""
        num_letters = 0 if self.letters is None else len(self.letters)
        table = torch.from_numpy(self.static.table.copy())
        return TokenInput(settings, table, num_letters, elmo_shape)


def layers_of(elmo: Elmo, is_trained: bool = False) -> Callable[[Sequence[Words]], Tensor]:
    """Layers of sentences computed as they come, with gradients where the biLM is trained."""

    def compute(sentences: Sequence[Words]) -> Tensor:
        layers = (elmo.bilm(elmo.batch(sentences)) if is_trained else elmo.layers(sentences))[0]
        words: Tensor = layers.values[:, :, 1:-1] * layers.word_mask[..., None]  # (L + 1, B, T, D)
        return words

    return compute
