"""Each distinct word through the token layer once, remembered within a bound across calls.

The vector of a word depends on its letters and the weights alone, so looking it up gives the very
numbers that were computed. Nothing is remembered while the weights require a gradient, and
everything is forgotten when they have changed. (Changes that torch does not count, as through
`.data`, need `clear`.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from relmo.kernels.device import to_device

WORDS_AT_ONCE = {"cpu": 256, "cuda": 4096}
"""Words per pass through the token layer, by device: bounds the memory of the convolutions."""
MEMORY = {"cpu": 64 * 2**20, "cuda": 512 * 2**20}
"""Bytes for words, by device: a GPU's batch has 10,000 distinct ones, and spelling them takes the
host longer than reading them takes the GPU."""
LONGEST = 64
"""Longer words are computed each time: they seldom recur, and their letters take memory."""


def words_that_fit(device: torch.device, width: int) -> int:
    """How many words of that width are kept on a device."""
    return MEMORY.get(device.type, MEMORY["cpu"]) // (4 * width)


def weight_versions(module: nn.Module) -> tuple[object, ...]:
    """What tells weights apart: where they are, how often torch has written to them."""
    return tuple(
        (p.data_ptr(), 0 if p.is_inference() else p._version, p.device, p.requires_grad)
        for p in module.parameters()
    )


class WordMemo:
    """Token vectors of words, computed once and kept for the most recently used. Thread-safe.

    Args:
        layer: the token layer; when its weights change, everything is forgotten.
        spell: words -> ids, (N, C) or (N,), on the layer's device.
        capacity: words kept at most; 0 keeps none.
        compute: ids -> (N, P); the layer itself unless given.
    """

    def __init__(
        self,
        layer: nn.Module,
        spell: Callable[[Sequence[str]], Tensor],
        capacity: int,
        compute: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.layer = layer
        self.compute = compute or layer
        self.spell = spell
        self.capacity = capacity
        self._lock = threading.Lock()
        self.clear()

    def __len__(self) -> int:
        return len(self._row_of)

    def clear(self) -> None:
        """Forget every word."""
        self._row_of: dict[str, int] = {}
        self._words: list[str] = []  # the word of each row
        self._used = np.zeros(self.capacity, np.int64)  # the call that last asked for each row
        self._calls = 0
        self._table: Tensor | None = None  # (rows, P), grown as needed up to capacity
        self._weights: tuple[object, ...] = ()

    def hold(self, capacity: int) -> None:
        """Keep that many words at most from now on; a new number starts empty."""
        with self._lock:
            if capacity != self.capacity:
                self.capacity = capacity
                self.clear()

    def vectors(self, words: Sequence[str]) -> Tensor:
        """Token vectors of words, (U, P), without gradient."""
        with torch.inference_mode(False), torch.no_grad():
            weights = weight_versions(self.layer)
            rows, kept = self._recall(words, weights)  # (U,), (known, P)
            if kept is not None and len(kept) == len(words):
                return kept
            new = np.flatnonzero(rows < 0).tolist()
            fresh = self._compute([words[i] for i in new])  # (new, P)
            self._remember([words[i] for i in new], fresh, weights)
            if kept is None:
                return fresh
            result = fresh.new_empty(len(words), fresh.shape[1])  # (U, P)
            result[to_device(rows >= 0, fresh.device)] = kept
            result[to_device(rows < 0, fresh.device)] = fresh
            return result

    def _recall(
        self, words: Sequence[str], weights: tuple[object, ...]
    ) -> tuple[NDArray[np.int64], Tensor | None]:
        """The row of each word, -1 for an unknown one, and vectors (known, P)."""
        with self._lock:
            if weights != self._weights:
                self.clear()
            find = self._row_of.get
            rows = np.array([find(word, -1) for word in words], np.int64)
            known = rows[rows >= 0]
            if not len(known) or self._table is None:
                return np.full(len(words), -1), None
            self._calls += 1
            self._used[known] = self._calls
            return rows, self._table[to_device(known, self._table.device)]

    def _compute(self, words: Sequence[str]) -> Tensor:
        """Through the layer, words of like length together so that short ones stay cheap."""
        order = sorted(range(len(words)), key=lambda i: len(words[i]))
        result: Tensor | None = None
        at_once = WORDS_AT_ONCE.get(next(self.layer.parameters()).device.type, 256)
        for start in range(0, max(len(order), 1), at_once):
            part = order[start : start + at_once]
            ids = self.spell([words[i] for i in part])
            with torch.autocast(ids.device.type, enabled=False):
                vectors = self.compute(ids)  # (part, P)
            if result is None:
                result = vectors.new_empty(len(words), vectors.shape[1])  # (new, P)
            result[part] = vectors
        assert result is not None
        return result

    def _remember(self, words: Sequence[str], vectors: Tensor, weights: tuple[object, ...]) -> None:
        if self.capacity == 0 or any(p.requires_grad for p in self.layer.parameters()):
            return
        with self._lock:
            if self._row_of and weights != self._weights:
                return  # another thread found other weights meanwhile
            self._weights = weights
            place_of = {w: i for i, w in enumerate(words) if len(w) <= LONGEST}
            kept = [w for w in place_of if w not in self._row_of][-self.capacity :]
            self._grow(len(self._row_of) + len(kept), like=vectors)
            rows = self._rows_for(kept)
            if self._table is not None and kept:
                places = np.array([place_of[word] for word in kept])
                self._table[to_device(rows, vectors.device)] = vectors[
                    to_device(places, vectors.device)
                ]

    def _rows_for(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Rows for new words: free ones, then those of the least recently used words."""
        free = np.arange(len(self._words), min(self.capacity, len(self._words) + len(words)))
        rows = free
        if len(free) < len(words):
            oldest = np.argsort(self._used[: len(self._words)], kind="stable")
            rows = np.concatenate([free, oldest[: len(words) - len(free)]])
        self._calls += 1
        self._used[rows] = self._calls
        for word, row in zip(words, rows.tolist(), strict=True):
            if row < len(self._words):
                del self._row_of[self._words[row]]
                self._words[row] = word
            else:
                self._words.append(word)
            self._row_of[word] = row
        return rows

    def _grow(self, wanted: int, like: Tensor) -> None:
        rows = 0 if self._table is None else self._table.shape[0]
        if rows >= min(wanted, self.capacity):
            return
        larger = like.new_empty(min(self.capacity, max(wanted, 2 * rows)), like.shape[1])
        if self._table is not None:
            larger[:rows] = self._table
        self._table = larger

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: everything but the remembered words."""
        names = ("layer", "spell", "capacity", "compute")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]
