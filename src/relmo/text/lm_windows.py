"""What a language model reads, step by step: windows of many rows, forward and backward.

Documents of an epoch stand in a shuffled order, end to end. That stream is cut into R rows; step k
of the forward model is the k-th window of T tokens of every row from the left, step k of the
backward model the k-th from the right, read right to left. So both carry their state from step to
step through running text. A window is a function of seed, epoch and step alone: a position in the
data is one number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from relmo.errors import ConfigError
from relmo.text.token_cache import Part


@dataclass(frozen=True)
class Window:
    """One step of both directions."""

    inputs: NDArray[np.int64]
    """(2, T, R) word ids: forward, then backward, each in its own reading order."""
    targets: NDArray[np.int64]
    """(2, T, R) the word that each input is followed by, in reading order."""
    counts: NDArray[np.bool_]
    """(2, T, R) whether the target counts: not the boundary that always follows a boundary."""


class Windows:
    """All windows of a corpus, by step.

    Args:
        part: the corpus.
        rows: R, over all processes.
        length: T.
        seed: of the shuffle.
        rank: this process, which reads its own share of the rows.
        world_size: processes.
    """

    def __init__(
        self,
        part: Part,
        rows: int,
        length: int,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if rows < 1 or length < 1:
            raise ConfigError(f"{rows} rows of {length} tokens; both numbers must be positive")
        if rows % world_size:
            raise ConfigError(f"{rows} rows do not divide among {world_size} processes")
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
        self._epoch = -1
        self._order = self._starts = np.zeros(0, np.int64)

    def __getitem__(self, step: int) -> Window:
        epoch, k = divmod(step, self.steps_per_epoch)
        self._shuffle(epoch)
        T = self.length
        first = self.mine * self.row_tokens  # (R,)
        ahead = np.arange(k * T, k * T + T + 1)[:, None] + first  # (T + 1, R)
        behind = first + self.row_tokens - 1 - np.arange(k * T, k * T + T + 1)[:, None]
        tokens = self._at(np.stack([ahead, behind]))  # (2, T + 1, R)
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        counts = np.stack([targets[0] != 0, targets[1] != 1])  # <S> after </S>, </S> after <S>
        return Window(inputs, targets, counts)

    def _shuffle(self, epoch: int) -> None:
        if epoch == self._epoch:
            return
        lengths = np.diff(self.part.documents)
        self._order = np.random.default_rng((self.seed, epoch)).permutation(len(lengths))
        self._starts = np.concatenate([[0], np.cumsum(lengths[self._order])])
        self._epoch = epoch

    def _at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ids at positions of the shuffled stream."""
        flat = positions.ravel()
        which = np.searchsorted(self._starts, flat, side="right") - 1
        place = self.part.documents[self._order[which]] + flat - self._starts[which]
        ids: NDArray[np.int64] = self.part.tokens[place].astype(np.int64)
        return ids.reshape(positions.shape)
