"""Each distinct word through the token layer once, remembered within a bound across calls.

The vector of a word depends on its letters and the weights alone, so looking it up gives the very
numbers that were computed. Nothing is remembered while the weights require a gradient, and what was
remembered goes when they have changed. (Writing past torch's notice, as through `.data`, needs
`clear`.)
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relmo.nn.bare import versions

WORDS_AT_ONCE = {"cpu": 256, "cuda": 4096}
"""Words per pass through the token layer, by device: bounds the memory of the convolutions."""
LONGEST = 64
"""Longer words are computed each time: they seldom come again, and their letters take room."""


class WordMemo:
    """Token vectors of words, computed once and kept for the most recently used. Safe for threads.

    Args:
        layer: the token layer; its weights say when what is remembered goes.
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
        self._row_of: OrderedDict[str, int] = OrderedDict()  # least recently used first
        self._table: Tensor | None = None  # (rows, P), grown as needed up to capacity
        self._weights: tuple[object, ...] = ()

    def vectors(self, words: Sequence[str]) -> Tensor:
        """Token vectors of words, (U, P), without gradient."""
        with torch.inference_mode(False), torch.no_grad():
            weights = versions(self.layer)
            known, kept = self._recall(words, weights)
            if kept is not None and len(known) == len(words):
                return kept
            new = sorted(set(range(len(words))) - set(known))
            fresh = self._compute([words[i] for i in new])  # (new, P)
            self._remember([words[i] for i in new], fresh, weights)
            if kept is None:
                return fresh
            result = fresh.new_empty(len(words), fresh.shape[1])  # (U, P)
            result[known], result[new] = kept, fresh
            return result

    def _recall(
        self, words: Sequence[str], weights: tuple[object, ...]
    ) -> tuple[list[int], Tensor | None]:
        """Positions of the words that are known, and their vectors (known, P)."""
        with self._lock:
            if weights != self._weights:
                self.clear()
            known = [i for i, word in enumerate(words) if word in self._row_of]
            if not known or self._table is None:
                return [], None
            for i in known:
                self._row_of.move_to_end(words[i])
            return known, self._table[[self._row_of[words[i]] for i in known]]

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
            rows = [self._free_row(word) for word in kept]
            if self._table is not None and kept:
                self._table[rows] = vectors[[place_of[word] for word in kept]]

    def _free_row(self, word: str) -> int:
        """A row for a new word: the next one, or that of the word used longest ago."""
        if len(self._row_of) < self.capacity:
            row = len(self._row_of)
        else:
            _, row = self._row_of.popitem(last=False)
        self._row_of[word] = row
        return row

    def _grow(self, wanted: int, like: Tensor) -> None:
        rows = 0 if self._table is None else self._table.shape[0]
        if rows >= min(wanted, self.capacity):
            return
        larger = like.new_empty(min(self.capacity, max(wanted, 2 * rows)), like.shape[1])
        if self._table is not None:
            larger[:rows] = self._table
        self._table = larger

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: everything but what is remembered."""
        names = ("layer", "spell", "capacity", "compute")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]
