"""Words of a batch -> what a task's model reads, on the device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from relmo.elmo import Elmo
from relmo.kernels.device import to_device
from relmo.nn.blocks.tokens import InputSettings, TokenBatch, TokenInput
from relmo.tasks.static_vectors import StaticVectors
from relmo.text.tokenize import TreebankTokenizer

Words = tuple[str, ...]
MAX_LETTERS = 30
"""Letters of a word that a model's own character CNN reads."""
MAX_KNOWN = 1_000_000
"""Words whose rows and letters are remembered, in some 150 MB; past it they are looked up anew."""


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
        self._known = _KnownWords(static, letters)

    def __call__(self, sentences: Sequence[Words]) -> TokenBatch:
        """A batch of sentences."""
        lengths = np.array([len(s) for s in sentences], np.int64)
        mask = np.arange(lengths.max(initial=1)) < lengths[:, None]  # (B, T), T from 1 on
        known = self._known = self._known.or_fresh()
        numbers = np.zeros(mask.shape, np.int64)
        numbers[mask] = [known[word] for word in chain.from_iterable(sentences)]
        letters = None if self.letters is None else known.letters_of(numbers)
        return TokenBatch(
            static=to_device(known.rows[numbers], self.device),
            letters=None if letters is None else to_device(letters, self.device).long(),
            layers=None if self.layers is None else _at_least_one(self.layers(sentences)),
            mask=to_device(mask, self.device),
            known_lengths=torch.from_numpy(lengths),
        )

    def make_module(
        self, settings: InputSettings, elmo_shape: tuple[int, int] | None
    ) -> TokenInput:
        """The module that reads such batches."""
        num_letters = 0 if self.letters is None else len(self.letters)
        table = torch.from_numpy(self.static.table.copy())
        return TokenInput(settings, table, num_letters, elmo_shape)


def _at_least_one(layers: Tensor) -> Tensor:
    """Layers (L + 1, B, T, D) with T from 1 on, where sentences have no words at all."""
    return layers if layers.shape[2] else nn.functional.pad(layers, (0, 0, 0, 1))


def split_text(text: str) -> list[str]:
    """Words of plain text, split as the tasks' data are: close to the Penn Treebank."""
    return [token.text for token in TreebankTokenizer().tokens(text)]


class _KnownWords(dict[str, int]):
    """Words met so far -> numbers from 1 on, by which their rows and letters are found; 0 fills up.

    Args:
        static: vectors of known words.
        letters: of a model that spells, else None.
    """

    def __init__(self, static: StaticVectors, letters: Letters | None) -> None:
        super().__init__()
        self.static, self.letters = static, letters
        self.rows = np.zeros(1024, np.int64)
        self.num_letters = np.zeros(1024, np.int64)
        self.ids = np.zeros((1024, MAX_LETTERS if letters else 0), np.int32)

    def __missing__(self, word: str) -> int:
        number = len(self) + 1
        if number == len(self.rows):
            double = [np.concatenate([a, np.zeros_like(a)]) for a in (self.rows, self.num_letters)]
            self.rows, self.num_letters = double
            self.ids = np.concatenate([self.ids, np.zeros_like(self.ids)])
        self.rows[number] = self.static.rows([word])[0]
        ids = [] if self.letters is None else self.letters.ids(word)
        self.num_letters[number] = len(ids)
        self.ids[number, : len(ids)] = ids
        self[word] = number
        return number

    def letters_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        """(B, T) numbers -> (B, T, C) character ids, of as many letters as are needed."""
        C = max(3, int(self.num_letters[numbers].max(initial=0)))
        return self.ids[numbers, :C]

    def or_fresh(self) -> _KnownWords:
        """These, unless they have become too many."""
        return self if len(self) < MAX_KNOWN else _KnownWords(self.static, self.letters)


def layers_of(elmo: Elmo, is_trained: bool = False) -> Callable[[Sequence[Words]], Tensor]:
    """Layers of sentences computed as they come, with gradients where the biLM is trained."""

    def compute(sentences: Sequence[Words]) -> Tensor:
        if is_trained:
            batch = elmo.runtime.batch(sentences)
            vectors = elmo.bilm.token_layer(batch.words)
            layers = elmo.bilm.read_padded(vectors[batch.index], batch.lengths)
        else:
            layers = elmo.runtime.layers(sentences)[0]
        words: Tensor = layers.values[:, :, 1:-1] * layers.word_mask[..., None]  # (L + 1, B, T, D)
        return words

    return compute
