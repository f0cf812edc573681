"""Padded sentences -> one matrix without padding, step after step, longest sentence first.

Step t then concerns the first alive[t] rows of the batch, for both directions alike: a sentence
that has ended costs nothing, and its state stays as its last token left it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Packing(NamedTuple):
    """Where the tokens of a padded batch stand in a matrix of S rows without padding."""

    alive: list[int]
    """Sentences that have a token at step t; never growing."""
    order: Tensor
    """(B,) sentences, longest first."""
    ahead: Tensor
    """(S,) rows of the padded batch, (B x T), in the forward model's order."""
    behind: Tensor
    """(S,) the same in the backward model's."""


def pack(lengths: Tensor, T: int) -> Packing:
    """Plan for sentences of these lengths, (B,), padded to T tokens."""
    order = torch.argsort(lengths, descending=True, stable=True)  # (B,)
    ends = torch.bincount(lengths)  # (longest + 1,): sentences of each length
    alive = len(lengths) - ends.cumsum(0)[:-1]  # (steps,): sentences longer than t
    steps = np.repeat(np.arange(len(alive)), alive.numpy())  # torch's would wake all its threads
    step = torch.from_numpy(steps)  # (S,): 0, 0, 0, 1, 1, …
    rank = torch.arange(len(step)) - (alive.cumsum(0) - alive)[step]  # (S,): 0, 1, 2, 0, 1, …
    first = (order * T)[rank]  # (S,): row of the sentence's first token
    return Packing(alive.tolist(), order, first + step, first + lengths[order][rank] - 1 - step)


class Rooms(NamedTuple):
    """Where steps read and write in a matrix of B + S rows, inputs beside the outputs before them.

    A step leaves its outputs where the next one reads them. There are as many as sentences that
    lived in it, of which the next step reads the first; what is before the first step stands in
    front.
    """

    steps: list[tuple[int, int, int]]
    """Of each step: sentences that live, the first row it reads, the first row it writes."""
    inputs: Tensor
    """(S,) rows of the tokens' inputs."""
    last: Tensor
    """(B,) each sentence's last output, longest sentence first; rows from the first output on."""


def make_rooms(alive: Sequence[int]) -> Rooms:
    """For steps with so many sentences, none without a token."""
    counts = np.array(alive, np.int64)  # (steps,)
    B = int(counts.max(initial=0))
    outputs = counts.cumsum() - counts  # (steps,): the first output of each, among all outputs
    after = B + outputs
    first = np.concatenate([[0], after])[:-1]
    inputs = np.repeat(first - outputs, counts) + np.arange(counts.sum())  # (S,)
    sentence = np.arange(B)
    lived = np.searchsorted(-counts, -sentence)  # (B,): steps of each sentence
    last = outputs[lived - 1] + sentence
    steps = list(zip(alive, first.tolist(), after.tolist(), strict=True))
    return Rooms(steps, torch.from_numpy(inputs), torch.from_numpy(last))


def blocks_of(alive: Sequence[int], tokens: int) -> list[list[int]]:
    """Steps in groups of at most that many tokens, or of a single step."""
    blocks: list[list[int]] = []
    room = 0
    for n in alive:
        if not blocks or n > room:
            blocks.append([])
            room = tokens
        blocks[-1].append(n)
        room -= n
    return blocks
