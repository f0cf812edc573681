"""Sentences -> batches: similar lengths together, a bound on padded tokens, order restored.

Nothing here knows of tensors: a plan is lists of positions, and a `Spelled` batch is numpy.
"""

from __future__ import annotations

from collections import defaultdict, deque
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
BEGUN = 1
"""Batches that are begun before the one before them is waited for."""


def plan_batches(
    lengths: Sequence[int], max_tokens: int, max_sentences: int | None = None
) -> list[list[int]]:
    """Positions of the sentences of each batch; every position occurs once.

    A batch's longest sentence times its size stays within max_tokens, except that a single
    longer sentence is a batch of its own. Longest first: the largest need of memory comes first.
    """
    if max_tokens < 1 or (max_sentences is not None and max_sentences < 1):
        raise ConfigError(f"a batch needs room: {max_tokens} tokens, {max_sentences} sentences")
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
    """Cut a stream into lists whose sizes add up to the limit or, by their last item, just over."""
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
    """Run each batch of items and give the results in the order of the items.

    `begin` starts a batch and gives back what waits for its results; the next batch is begun before
    they are waited for, so that a device does not stand still.
    """
    results: dict[int, Result] = {}
    under_way: deque[tuple[Sequence[int], Callable[[], Sequence[Result]]]] = deque()

    def finish() -> None:
        batch, wait = under_way.popleft()
        results.update(zip(batch, wait(), strict=True))

    for batch in batches:
        under_way.append((batch, begin([items[i] for i in batch])))
        if len(under_way) > BEGUN:
            finish()
    while under_way:
        finish()
    return [results[i] for i in range(len(items))]


@dataclass(frozen=True, slots=True)
class WordIndex:
    """Sentences with boundaries, as rows of their distinct words."""

    words: list[str]
    """U distinct words: the two boundaries, then the others in order of first occurrence."""
    index: NDArray[np.int64]
    """(B, T) rows of `words`, 0 past the end of a sentence."""
    lengths: NDArray[np.int64]
    """(B,) tokens, both boundaries counted."""


def index_words(sentences: Sequence[Sequence[str]]) -> WordIndex:
    """Put boundaries around the sentences and number their distinct words."""
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
