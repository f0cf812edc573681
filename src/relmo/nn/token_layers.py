"""Words -> token vectors, the context-free first layer of ELMo: from characters or from a table.

Modules are created without random values (`reset_parameters` does nothing): weights come from a
file or from `initialize`, and values that are then overwritten cost seconds on a full-size model.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from relmo.config import CharCnnConfig, WordTableConfig
from relmo.kernels import reference
from relmo.kernels.char_cnn import char_convolutions, filters_of


class Linear(nn.Linear):
    """nn.Linear without initial values; in inference a row's result is its own to the bit."""

    def reset_parameters(self) -> None:
        """Do nothing."""

    def forward(self, x: Tensor) -> Tensor:
        """Multiply (N, I) -> (N, O)."""
        return reference.linear_alike(x, self.weight, self.bias)


class Conv1d(nn.Conv1d):
    """nn.Conv1d without initial values."""

    def reset_parameters(self) -> None:
        """Do nothing."""


class Embedding(nn.Embedding):
    """nn.Embedding without initial values."""

    def reset_parameters(self) -> None:
        """Do nothing."""


class Highway(nn.Module):
    """A gated shortcut around one linear layer, (N, F) -> (N, F)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.transform = Linear(width, width)
        self.carry = Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Blend x with its transformation."""
        return reference.highway(x, self.transform(x), self.carry(x))  # (N, F)


class CharCnn(nn.Module):
    """Each word from its own characters: (N, C) ids -> (N, P)."""

    def __init__(self, config: CharCnnConfig) -> None:
        super().__init__()
        E, F = config.character_width, config.num_filters
        self.activation = config.activation
        self.max_characters = config.max_characters
        self.padding = config.num_ids - 1  # the last id fills a word up to C characters
        self.embedding = Embedding(config.num_ids, E, padding_idx=0)
        self.convs = nn.ModuleList(Conv1d(E, count, size) for size, count in config.filters)
        self.highways = nn.ModuleList(Highway(F) for _ in range(config.num_highways))
        self.projection = Linear(F, config.width) if config.has_projection else None
        self.widest = max(size for size, _ in config.filters)

    def forward(self, words: Tensor) -> Tensor:
        """Token vectors of the words, (N, C) -> (N, P)."""
        return self.from_short(self.without_unneeded_padding(words))

    def from_short(self, words: Tensor) -> Tensor:
        """Token vectors of words whose unneeded padding is gone, (N, C) -> (N, P)."""
        x = self.features(words)  # (N, F)
        for highway in self.highways:
            x = highway(x)
        return x if self.projection is None else self.projection(x)  # (N, P)

    def features(self, words: Tensor) -> Tensor:
        """Strongest responses of all filters, (N, C) -> (N, F), unneeded padding gone."""
        letters = self.embedding(words)  # (N, C, E)
        is_short = words.shape[1] < self.max_characters
        return char_convolutions(letters, self.filters(), self.activation, is_short)

    def filters(self) -> list[tuple[Tensor, Tensor]]:
        """Weight (F_k, E, width) and bias (F_k,) of each convolution."""
        return filters_of(self.convs)

    def without_unneeded_padding(self, words: Tensor) -> Tensor:
        """Drop columns that no maximum can need, (N, C) -> (N, shorter C).

        Windows that begin past a word's end see padding alone and are all equal, so one such
        window of the widest filter is enough: the maximum is the same number.
        """
        if words.shape[0] == 0:
            return words
        is_letter = (words != self.padding) & (words != 0)  # 0: padding of a batch
        longest = int(is_letter.sum(1).max())
        return words[:, : longest + self.widest]


class WordTable(nn.Module):
    """One stored vector per word: (N,) ids -> (N, P)."""

    def __init__(self, config: WordTableConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config.num_words, config.width)

    def forward(self, words: Tensor) -> Tensor:
        """Token vectors of the words, (N,) -> (N, P)."""
        vectors: Tensor = self.embedding(words)
        return vectors


def initialize(module: CharCnn | WordTable, generator: torch.Generator) -> None:
    """Fill new parameters at random, a CNN's in the original's proportions."""
    if isinstance(module, WordTable):
        nn.init.normal_(module.embedding.weight, 0.0, 1.0, generator=generator)
        return
    nn.init.uniform_(module.embedding.weight, -1.0, 1.0, generator=generator)
    with torch.no_grad():
        module.embedding.weight[0] = 0.0
    for weight, bias in module.filters():
        fan_in = weight.shape[1] * weight.shape[2]
        nn.init.normal_(weight, 0.0, fan_in**-0.5, generator=generator)
        nn.init.zeros_(bias)
    for highway in module.highways:
        assert isinstance(highway, Highway)
        F = highway.transform.in_features
        nn.init.normal_(highway.transform.weight, 0.0, F**-0.5, generator=generator)
        nn.init.normal_(highway.carry.weight, 0.0, F**-0.5, generator=generator)
        nn.init.zeros_(highway.transform.bias)
        nn.init.constant_(highway.carry.bias, -2.0)  # mostly closed: words start as their features
    if module.projection is not None:
        F = module.projection.in_features
        nn.init.normal_(module.projection.weight, 0.0, F**-0.5, generator=generator)
        nn.init.zeros_(module.projection.bias)
