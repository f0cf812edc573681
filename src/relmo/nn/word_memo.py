"""Each distinct word through the token layer once, remembered within a bound across calls.

The vector of a word depends on its letters and the weights alone, so looking it up gives the very
numbers that were computed; the memo empties itself when the weights have changed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

WORDS_AT_ONCE = 256
"""Words per pass through the token layer: bounds the memory of the convolutions."""


class WordMemo:
    """Token vectors of words, computed once and kept for the most recently used.

    Args:
        layer: the token layer, ids -> (N, P).
        spell: words -> ids, (N, C) or (N,), on the layer's device.
        capacity: words kept at most; 0 keeps none.
    """

    def __init__(
        self, layer: nn.Module, spell: Callable[[Sequence[str]], Tensor], capacity: int
    ) -> None:
        self.layer = layer
        self.spell = spell
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._row_of: OrderedDict[str, int] = OrderedDict()  # least recently used first
        self._table: Tensor | None = None  # (rows, P), grown as needed up to capacity
        self._weights: tuple[object, ...] = ()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._row_of)

    def vectors(self, words: Sequence[str]) -> Tensor:
        """Token vectors of distinct words, (U, P)."""
        with self._lock, torch.no_grad():
            self._forget_if_weights_changed()
            new = [word for word in words if word not in self._row_of]
            self.misses += len(new)
            self.hits += len(words) - len(new)
            computed = self._compute(new)  # (new, P)
            result = computed.new_empty(len(words), computed.shape[1])  # (U, P)
            at_new = [i for i, word in enumerate(words) if word not in self._row_of]
            at_old = [i for i, word in enumerate(words) if word in self._row_of]
            result[at_new] = computed
            if at_old:
                assert self._table is not None
                result[at_old] = self._table[[self._row_of[words[i]] for i in at_old]]
                for i in at_old:
                    self._row_of.move_to_end(words[i])
            self._remember(new, computed)
            return result

    def _compute(self, words: Sequence[str]) -> Tensor:
        """Through the layer, words of like length together so that short ones stay cheap."""
        order = sorted(range(len(words)), key=lambda i: len(words[i]))
        parts = [
            self.layer(self.spell([words[i] for i in order[start : start + WORDS_AT_ONCE]]))
            for start in range(0, max(len(order), 1), WORDS_AT_ONCE)
        ]
        in_order = torch.cat(parts)  # (new, P), shortest word first
        result = torch.empty_like(in_order)
        result[order] = in_order
        return result

    def _remember(self, words: Sequence[str], vectors: Tensor) -> None:
        kept = words[-self.capacity :] if self.capacity else []
        if not kept:
            return
        self._grow(len(self._row_of) + len(kept), like=vectors)
        assert self._table is not None
        rows = []
        for word in kept:
            if len(self._row_of) < self.capacity:
                row = len(self._row_of)
            else:
                _, row = self._row_of.popitem(last=False)
            self._row_of[word] = row
            rows.append(row)
        self._table[rows] = vectors[-len(kept) :]

    def _grow(self, wanted: int, like: Tensor) -> None:
        rows = 0 if self._table is None else self._table.shape[0]
        if rows >= min(wanted, self.capacity):
            return
        larger = like.new_empty(min(self.capacity, max(wanted, 2 * rows)), like.shape[1])
        if self._table is not None:
            larger[:rows] = self._table
        self._table = larger

    def _forget_if_weights_changed(self) -> None:
        """Compare the parameters' identities and versions; any write through torch raises one."""
        now = tuple((p.data_ptr(), p._version, p.dtype) for p in self.layer.parameters())
        if now != self._weights:
            self._row_of.clear()
            self._table = None
            self._weights = now
