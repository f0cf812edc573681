"""Padded sentences -> one matrix without padding, step after step, longest first; and back.

Step t then concerns the first alive[t] rows of the batch, for both directions alike: a finished
sentence costs nothing, and its state stays as its last token left it.

Shapes: B sentences padded to T tokens, S tokens in all, P width of one direction, D = 2P.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from relmo.kernels.device import to_device
from relmo.types import Layers


class Packing(NamedTuple):
    """Where the tokens of a padded batch stand in a matrix of S rows without padding."""

    lengths: Tensor
    """(B,) tokens of each sentence."""
    alive: list[int]
    """Sentences that have a token at step t; never increasing."""
    order: Tensor
    """(B,) sentences, longest first."""
    step: Tensor
    """(S,) the step of each packed token, in its direction's reading order: 0, 0, 0, 1, 1, ..."""
    sentence: Tensor
    """(S,) the sentence of each packed token."""

    def places(self, T: int) -> Tensor:
        """Rows of the padded batch (B x T), (2, S): in forward and in backward reading order."""
        first = self.sentence * T  # (S,): row of the sentence's first token
        last = first + self.lengths[self.sentence] - 1
        return torch.stack([first + self.step, last - self.step])


def pack(lengths: Tensor) -> Packing:
    """Plan for sentences of these lengths, (B,); a sentence may be empty."""
    order = torch.argsort(lengths, descending=True, stable=True)  # (B,)
    ends = torch.bincount(lengths)  # (longest + 1,): sentences of each length
    alive = len(lengths) - ends.cumsum(0)[:-1]  # (steps,): sentences longer than t
    steps = np.repeat(np.arange(len(alive)), alive.numpy())  # torch's would wake all its threads
    step = torch.from_numpy(steps)  # (S,)
    rank = torch.arange(len(step)) - (alive.cumsum(0) - alive)[step]  # (S,): 0, 1, 2, 0, 1, ...
    return Packing(lengths, alive.tolist(), order, step, order[rank])


def join_directions(
    x: Tensor, lengths: Tensor, places: Tensor, outputs: Iterable[Sequence[Tensor] | Tensor]
) -> Layers:
    """Packed outputs of both directions -> all layers of a padded batch, zero where it is padding.

    Args:
        x: (B, T, P) token vectors, layer 0 of both directions.
        lengths: (B,) tokens of each sentence.
        places: (2, S) rows of the padded batch, in each direction's reading order.
        outputs: of each LSTM layer, forward and backward, (S, P) each.
    """
    B, T, P = x.shape
    tokens, (ahead, behind) = x.reshape(B * T, P), places
    pairs = list(outputs)
    values = x.new_zeros(len(pairs) + 1, B * T, 2 * P)  # (L + 1, B x T, D)
    values[0, ahead] = tokens[ahead].repeat(1, 2)
    for depth, (forward, backward) in enumerate(pairs, 1):
        values[depth, ahead, :P] = forward
        values[depth, behind, P:] = backward
    mask = to_device(torch.arange(T) < lengths.unsqueeze(1), x.device)  # (B, T)
    return Layers(values.view(len(values), B, T, 2 * P), mask)


class StepRows(NamedTuple):
    """Where steps read and write in a matrix of B + S rows, inputs beside the previous outputs.

    A step leaves its outputs where the next one reads them: one row per sentence alive in it, of
    which the next step reads the first ones. The state before the first step comes first.
    """

    steps: list[tuple[int, int, int]]
    """Of each step: sentences alive, the first row it reads, the first row it writes."""
    inputs: Tensor
    """(S,) rows of the tokens' inputs."""
    last: Tensor
    """(B,) each sentence's last output, longest sentence first; rows from the first output on."""


def plan_step_rows(alive: Sequence[int]) -> StepRows:
    """For steps with so many sentences each, none without a token."""
    counts = np.array(alive, np.int64)  # (steps,)
    B = int(counts.max(initial=0))
    outputs = counts.cumsum() - counts  # (steps,): the first output of each, among all outputs
    after = B + outputs
    first = np.concatenate([[0], after])[:-1]
    inputs = np.repeat(first - outputs, counts) + np.arange(counts.sum())  # (S,)
    sentence = np.arange(B)
    num_steps = np.searchsorted(-counts, -sentence)  # (B,): steps of each sentence
    last = outputs[num_steps - 1] + sentence
    steps = list(zip(alive, first.tolist(), after.tolist(), strict=True))
    return StepRows(steps, torch.from_numpy(inputs), torch.from_numpy(last))


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
