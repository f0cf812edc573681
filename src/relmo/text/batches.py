"""Sentences -> batches: similar lengths together, a bound on padded tokens, order restored.

Nothing here knows of tensors: a plan is lists of positions, and a `Spelled` batch is numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
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
    run: Callable[[list[Item]], Sequence[Result]],
) -> list[Result]:
    """Run each batch of items and give the results in the order of the items."""
    results: dict[int, Result] = {}
    for batch in batches:
        results.update(zip(batch, run([items[i] for i in batch]), strict=True))
    return [results[i] for i in range(len(items))]


@dataclass(frozen=True, slots=True)
class WordIndex:
    """Sentences with boundaries, as rows of their distinct words."""

    words: list[str]
    """U distinct words in order of first occurrence."""
    index: NDArray[np.int64]
    """(B, T) rows of `words`, 0 past the end of a sentence."""
    lengths: NDArray[np.int64]
    """(B,) tokens, both boundaries counted."""


def index_words(sentences: Sequence[Sequence[str]]) -> WordIndex:
    """Put boundaries around the sentences and number their distinct words."""
    row_of: dict[str, int] = {}
    lengths = np.array([len(sentence) + 2 for sentence in sentences], dtype=np.int64)  # (B,)
    index = np.zeros((len(sentences), int(lengths.max(initial=0))), dtype=np.int64)  # (B, T)
    for b, sentence in enumerate(sentences):
        bounded = [BEGIN_SENTENCE, *sentence, END_SENTENCE]
        index[b, : len(bounded)] = [row_of.setdefault(word, len(row_of)) for word in bounded]
    return WordIndex(list(row_of), index, lengths)
