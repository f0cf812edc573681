"""Windows of text -> batches on the device, prepared in advance by a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relmo.kernels.device import to_device
from relmo.nn.lm_head import Sampler
from relmo.tasks.lm.windows import Windows
from relmo.text.characters import Characters

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

    def __init__(
        self, words: Sequence[str], characters: Characters, widest: int, device: torch.device
    ) -> None:
        ids = characters.spell(words)  # (words, C)
        self.lengths = (ids != characters.padding).sum(1)  # (words,)
        self.widest, self.max_characters = widest, characters.max_characters
        self.table = torch.from_numpy(ids.astype(np.int32)).to(device)  # (words, C)

    def chunks(self, words: NDArray[np.int64]) -> list[tuple[int, int, int]]:
        """Groups of words sorted by length, with the number of columns that each needs."""
        ends = (np.array(CHUNKS) * len(words)).astype(int)
        found = []
        for first, past in pairwise(ends):
            if past > first:
                columns = int(self.lengths[words[past - 1]]) + self.widest
                found.append((int(first), int(past), min(columns, self.max_characters)))
        return found


class LmBatches:
    """The batch of each step; for consecutive steps, batches are prepared in advance.

    Args:
        windows: the text.
        speller: of its words.
        rows: (words,) row of the softmax of each word of the corpus.
        sampler: of negatives; None for the full softmax.
        device: of the batches.
    """

    def __init__(
        self,
        windows: Windows,
        speller: Speller,
        rows: NDArray[np.int64],
        sampler: Sampler | None,
        device: torch.device,
    ) -> None:
        self.windows, self.speller, self.rows = windows, speller, rows
        self.sampler, self.device = sampler, device
        self._queue: queue.Queue[tuple[int, LmBatch | BaseException]] = queue.Queue(PREPARED)
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._next = -1

    def __getitem__(self, step: int) -> LmBatch:
        if step != self._next:
            self.close()
            self._stop.clear()
            self._thread = threading.Thread(target=self._work, args=(step,), daemon=True)
            self._thread.start()
        self._next = step + 1
        _, batch = self._queue.get()
        if isinstance(batch, BaseException):
            self.close()  # the thread has ended; the next call starts another
            raise batch
        return batch

    def close(self) -> None:
        """Stop preparing batches."""
        self._stop.set()
        while self._thread is not None and self._thread.is_alive():
            while not self._queue.empty():
                self._queue.get_nowait()
            self._thread.join(0.01)
        while not self._queue.empty():
            self._queue.get_nowait()
        self._thread, self._next = None, -1

    def make(self, step: int) -> LmBatch:
        """The batch of one step."""
        window = self.windows[step]
        words, index = np.unique(window.inputs, return_inverse=True)
        order = np.argsort(self.speller.lengths[words], kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        negatives = None if self.sampler is None else self._tensor(self.sampler.draw(step))
        words = words[order]
        return LmBatch(
            words=self._tensor(words),
            chunks=self.speller.chunks(words),
            index=self._tensor(place[index].reshape(window.inputs.shape)),
            targets=self._tensor(self.rows[window.targets]),
            counts=self._tensor(window.counts.astype(np.float32)),
            negatives=negatives,
            keeps=self._tensor(window.keeps.astype(np.float32)),
        )

    def _work(self, step: int) -> None:
        while not self._stop.is_set():
            batch: LmBatch | BaseException
            try:
                batch = self.make(step)
            except BaseException as error:
                batch = error
            while not self._stop.is_set():
                try:
                    self._queue.put((step, batch), timeout=0.1)
                    break
                except queue.Full:
                    continue
            if isinstance(batch, BaseException):
                return
            step += 1

    def _tensor(self, array: NDArray[np.generic]) -> Tensor:
        return to_device(array, self.device)
