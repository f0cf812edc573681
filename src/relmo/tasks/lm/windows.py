"""What a language model reads at each step: a window of many rows of text, in both directions.

The documents of an epoch are shuffled and concatenated. That stream is cut into R rows; step k of
the forward model is the k-th window of T tokens of every row from the left, step k of the backward
model the k-th from the right, read right to left. So both carry their state from step to step
through running text. A window depends only on the seed, the epoch and the step: a position in the
data is one number.

Rows may restart every few windows, since a model must read single sentences, too. A row's state is
then reset, and the row moves on to the beginning of the next sentence; it keeps that distance until
it restarts again. (Moving back to the beginning of its own would prefer long sentences: a place in
the text is more likely to be in a long one, but what follows a place is any sentence.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from relmo.errors import ConfigError
from relmo.lm.scorer import targets_that_count
from relmo.tasks.lm.token_cache import CorpusPart


@dataclass(frozen=True)
class Window:
    """One step of both directions."""

    inputs: NDArray[np.int64]
    """(2, T, R) word ids: forward, then backward, each in its own reading order."""
    targets: NDArray[np.int64]
    """(2, T, R) the word that follows each input in reading order."""
    counts: NDArray[np.bool_]
    """(2, T, R) whether the target counts; a boundary after a boundary does not."""
    keeps: NDArray[np.bool_]
    """(2, R) whether the row continues; if not, it restarts and its state is reset."""


class Windows:
    """The windows of a corpus by step.

    Args:
        part: of a corpus.
        rows: R, over all processes.
        length: T.
        seed: of the shuffle.
        rank: of this process, which reads its own share of the rows.
        world_size: number of processes.
        spans: windows after which a row restarts; rows take them in turn. Empty: never.
    """

    def __init__(
        self,
        part: CorpusPart,
        rows: int,
        length: int,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        spans: Sequence[int] = (),
    ) -> None:
        if rows < 1 or length < 1:
            raise ConfigError(f"rows and length must be ≥ 1, got {rows} and {length}")
        if rows % world_size:
            raise ConfigError(f"rows must be a multiple of the {world_size} processes, got {rows}")
        self.part, self.rows, self.length, self.seed = part, rows, length, seed
        self.row_tokens = len(part.tokens) // rows
        self.steps_per_epoch = (self.row_tokens - 1) // length
        if self.steps_per_epoch < 1:
            raise ConfigError(
                f"{len(part.tokens):,} tokens are too few for {rows} rows of {length} tokens each; "
                f"use fewer rows or shorter windows"
            )
        share = rows // world_size
        self.mine = np.arange(rank * share, (rank + 1) * share)  # (R of this process,)
        spans_of = np.resize(np.array(spans, np.int64), rows)[self.mine]  # (R,)
        self._spans = spans_of if spans else None
        self._epoch = -1
        self._order = self._starts = np.zeros(0, np.int64)

    def __getitem__(self, step: int) -> Window:
        epoch, k = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            lengths = np.diff(self.part.documents)
            self._order = np.random.default_rng((self.seed, epoch)).permutation(len(lengths))
            self._starts = np.concatenate([[0], np.cumsum(lengths[self._order])])
            self._epoch = epoch
        started = self._started(epoch, k)  # (2, R)
        signs = np.array([1, -1], np.int64)[:, None]  # forward, backward
        first = self.mine * self.row_tokens  # (R,)
        ends = np.stack([first, first + self.row_tokens - 1])  # (2, R) where each direction starts
        further = self._to_sentence(ends + signs * started * self.length)  # (2, R)
        here = ends + signs * (k * self.length + further)  # (2, R)
        steps = np.arange(self.length + 1, dtype=np.int64)  # (T + 1,)
        positions = here[..., None] + signs[..., None] * steps  # (2, R, T + 1)
        places = self._places(positions % len(self.part.tokens))  # after the end, the beginning
        rows = self.part.tokens[places].astype(np.int64)  # (2, R, T + 1)
        tokens = np.ascontiguousarray(rows.swapaxes(1, 2))  # (2, T + 1, R); faster than at once
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        return Window(inputs, targets, targets_that_count(targets), started != k)

    def _started(self, epoch: int, k: int) -> NDArray[np.int64]:
        """The step of this epoch at which each row last restarted, (2, R)."""
        if self._spans is None:
            return np.zeros((2, len(self.mine)), np.int64)
        rng = np.random.default_rng((self.seed, epoch, 2))
        chances = rng.random((2, self.rows))[:, self.mine]  # the same for any world size
        ages = (k + (chances * self._spans).astype(np.int64)) % self._spans
        started: NDArray[np.int64] = np.maximum(k - ages, 0)
        return started

    def _to_sentence(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tokens from (2, R) positions on to the start of a sentence, 0 if beyond a window."""
        if self._spans is None:
            return np.zeros_like(positions)
        away = np.arange(self.length) * np.array([1, -1])[:, None, None]  # (2, 1, T)
        seen = (positions[..., None] + away).clip(0, len(self.part.tokens) - 1)  # (2, R, T)
        starts = np.array([0, 1])[:, None, None]  # <S>; </S> backward
        is_start = self.part.tokens[self._places(seen)] == starts  # (2, R, T)
        found: NDArray[np.int64] = is_start.argmax(2)  # the nearest; 0 if there is none
        return found

    def _places(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions in the corpus of positions in the shuffled stream."""
        turn = np.searchsorted(self._starts, positions.ravel(), side="right") - 1
        offset = positions - self._starts[turn].reshape(positions.shape)
        places: NDArray[np.int64] = (
            self.part.documents[self._order[turn]].reshape(positions.shape) + offset
        )
        return places
