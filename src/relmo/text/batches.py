"""Sentences -> batches: similar lengths together, a limit on padded tokens, order restored.

No tensors here: a plan is lists of positions, and a `WordIndex` is numpy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from relmo.errors import ConfigError
from relmo.text.characters import BEGIN_SENTENCE, END_SENTENCE

Item = TypeVar("Item")
Result = TypeVar("Result")


def plan_batches(
    lengths: Sequence[int], max_tokens: int, max_sentences: int | None = None
) -> list[list[int]]:
    """Plan batches of sentences with these lengths; return the positions of each batch.

    The longest sentence of a batch times its size stays within max_tokens; a single sentence that
    is longer gets a batch of its own. The longest come first, so that memory peaks at the start.
    """
    if max_tokens < 1 or (max_sentences is not None and max_sentences < 1):
        raise ConfigError(
            f"max_tokens and max_sentences must be ≥ 1, got {max_tokens} and {max_sentences}"
        )
    batches: list[list[int]] = []
    room = 0
    for position in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if room == 0:
            batches.append([])
            room = max(1, max_tokens // max(1, lengths[position]))
            room = min(room, max_sentences or room)
        batches[-1].append(position)
        room -= 1
    return batches


def in_windows(
    items: Iterable[Item], size: Callable[[Item], int], limit: int
) -> Iterator[list[Item]]:
    """Cut a stream into lists; each ends with the item whose size reaches the limit."""
    window: list[Item] = []
    total = 0
    for item in items:
        window.append(item)
        total += size(item)
        if total >= limit:
            yield window
            window, total = [], 0
    if window:
        yield window


def map_batches(
    items: Sequence[Item],
    batches: Iterable[Sequence[int]],
    begin: Callable[[list[Item]], Callable[[], Sequence[Result]]],
) -> list[Result]:
    """Run each batch and return the results in the order of the items.

    `begin` starts a batch and returns a function that waits for its results. The next batch is
    started before that function is called, so that a GPU is never idle.
    """
    results: dict[int, Result] = {}
    started: list[tuple[Sequence[int], Callable[[], Sequence[Result]]]] = []

    def finish_first() -> None:
        batch, wait = started.pop(0)
        results.update(zip(batch, wait(), strict=True))

    for batch in batches:
        started.append((batch, begin([items[i] for i in batch])))
        if len(started) > 1:
            finish_first()
    if started:
        finish_first()
    return [results[i] for i in range(len(items))]


@dataclass(frozen=True, slots=True)
class WordIndex:
    """Sentences with boundaries, as indices into their distinct words."""

    words: list[str]
    """U distinct words: the two boundaries, then the others in order of first occurrence."""
    index: NDArray[np.int64]
    """(B, T) indices into `words`, 0 after the end of a sentence."""
    lengths: NDArray[np.int64]
    """(B,) number of tokens, both boundaries included."""


def index_words(sentences: Sequence[Sequence[str]]) -> WordIndex:
    """Add boundaries to the sentences and number their distinct words."""
    lengths = np.array([len(sentence) + 2 for sentence in sentences], dtype=np.int64)  # (B,)
    index = np.zeros((len(lengths), int(lengths.max(initial=0))), dtype=np.int64)  # (B, T)
    if not len(lengths):
        return WordIndex([], index, lengths)
    flat = list(chain.from_iterable(sentences))
    row_of: defaultdict[str, int] = defaultdict(count().__next__)  # a new word gets the next row
    _, end = row_of[BEGIN_SENTENCE], row_of[END_SENTENCE]
    column = np.arange(index.shape[1])  # (T,)
    last = lengths[:, None] - 1  # (B, 1)
    rows = np.fromiter(map(row_of.__getitem__, flat), np.int64, len(flat))
    index[(column > 0) & (column < last)] = rows
    index[column == last] = end
    return WordIndex(list(row_of), index, lengths)
