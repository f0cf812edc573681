"""Windows of text -> batches on the device, prepared in advance by a thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.config import CharCnnConfig
from relmo.kernels.device import to_device
from relmo.nn.lm_head import Sampler
from relmo.tasks.lm.windows import Windows
from relmo.text.characters import make_characters

CHUNKS = (0, 0.3, 0.55, 0.75, 0.9, 0.98, 1)
"""Where words sorted by length are split into groups, each padded to its longest word."""
PREPARED = 4
"""Batches prepared in advance."""


@dataclass(frozen=True)
class LmBatch:
    """One step of both directions, on the device."""

    words: Tensor
    """(U,) rows of the spelling table, shortest word first."""
    chunks: list[tuple[int, int, int]]
    """(first, past, columns) of each group of words of similar length."""
    index: Tensor
    """(2, T, B) rows of `words`."""
    targets: Tensor
    """(2, T, B) rows of the softmax."""
    counts: Tensor
    """(2, T, B) float32, 1 where the target counts, else 0."""
    negatives: Tensor | None
    """(S,) rows of the softmax; None for the full one."""
    keeps: Tensor
    """(2, B) 1 where a stream continues, 0 where its state is reset before this window."""


class Speller:
    """The character ids of every word of a corpus, on the device."""

    def __init__(self, words: Sequence[str], config: CharCnnConfig, device: torch.device) -> None:
        characters = make_characters(config)
        ids = characters.spell(words)  # (words, C)
        self.lengths = (ids != characters.padding).sum(1)  # (words,)
        self.widest = max(size for size, _ in config.filters)
        self.max_characters = characters.max_characters
        self.table = torch.from_numpy(ids.astype(np.int32)).to(device)  # (words, C)

    def chunks(self, words: NDArray[np.int64]) -> list[tuple[int, int, int]]:
        """Groups of words sorted by length, with the number of columns that each needs."""
        ends = (np.array(CHUNKS) * len(words)).astype(int).tolist()
        columns = (self.lengths[words] + self.widest).clip(max=self.max_characters)  # (U,)
        groups = ((first, past) for first, past in pairwise(ends) if past > first)
        return [(first, past, int(columns[past - 1])) for first, past in groups]


class LmBatches:
    """The batch of each step; for consecutive steps, a thread prepares batches in advance.

    Args:
        windows: the text.
        speller: of its words.
        rows: (words,) row of the softmax of each word of the corpus.
        sampler: of negatives; None for the full softmax.
    """

    def __init__(
        self, windows: Windows, speller: Speller, rows: NDArray[np.int64], sampler: Sampler | None
    ) -> None:
        self.windows, self.speller, self.rows, self.sampler = windows, speller, rows, sampler
        self._thread = ThreadPoolExecutor(1)  # a single one: windows keep the order of an epoch
        self._prepared: deque[Future[LmBatch]] = deque()
        self._next = -1  # step of the first prepared batch

    def __getitem__(self, step: int) -> LmBatch:
        if step != self._next:
            self.close()
        while len(self._prepared) < PREPARED:
            self._prepared.append(self._thread.submit(self.make, step + len(self._prepared)))
        self._next = step + 1
        return self._prepared.popleft().result()

    def close(self) -> None:
        """Stop preparing batches."""
        while self._prepared:
            self._prepared.pop().cancel()
        self._next = -1

    def make(self, step: int) -> LmBatch:
        """The batch of one step."""
        window = self.windows[step]
        words, index = np.unique(window.inputs, return_inverse=True)
        order = np.argsort(self.speller.lengths[words], kind="stable")
        words, place = words[order], np.argsort(order)
        return LmBatch(
            words=self._tensor(words),
            chunks=self.speller.chunks(words),
            index=self._tensor(place[index].reshape(window.inputs.shape)),
            targets=self._tensor(self.rows[window.targets]),
            counts=self._tensor(window.counts.astype(np.float32)),
            negatives=None if self.sampler is None else self._tensor(self.sampler.draw(step)),
            keeps=self._tensor(window.keeps.astype(np.float32)),
        )

    def _tensor(self, array: NDArray[np.generic]) -> Tensor:
        return to_device(array, self.speller.table.device)
