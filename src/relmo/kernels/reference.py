"""The arithmetic of ELMo in plain torch: the truth that every faster path is checked against.

Shapes: B sentences, T tokens, N words, C characters, E character width, F filters, H cell width,
P output width, I input width of an LSTM layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 256
"""Steps whose inputs are multiplied at once."""
ROWS_ALIKE = 64
"""Matrix libraries round a product of few rows another way; from here on a row's is its own."""


class LstmWeights(NamedTuple):
    """One LSTM layer of one direction; gates in the order input, forget, candidate, output."""

    input: Tensor  # (4H, I)
    recurrent: Tensor  # (4H, P)
    bias: Tensor  # (4H,), the forget gate's 1.0 in it
    projection: Tensor | None  # (P, H); None where P = H and the cell's output is used as it is


class Clips(NamedTuple):
    """Bounds on absolute values in an LSTM layer; None sets no bound."""

    cell: float | None = None
    output: float | None = None  # after the projection


def char_convolutions(
    letters: Tensor, filters: Sequence[tuple[Tensor, Tensor]], activation: str
) -> Tensor:
    """Strongest response of each filter anywhere in the word: (N, C, E) -> (N, F).

    Each filter is a weight (F_k, E, width) and a bias (F_k,). The maximum comes before the
    activation, as in the original.
    """
    squash = torch.relu if activation == "relu" else torch.tanh
    found = [F.conv1d(letters.mT, weight, bias).amax(-1) for weight, bias in filters]  # (N, F_k)
    return squash(torch.cat(found, -1))  # (N, F)


def highway(x: Tensor, transformed: Tensor, carried: Tensor) -> Tensor:
    """Blend (N, F) with its transformation; "carry" gates the *transformed* part."""
    gate = torch.sigmoid(carried)
    return gate * torch.relu(transformed) + (1 - gate) * x


def projected_lstm(
    inputs: Tensor,
    lengths: Tensor,
    h: Tensor,
    c: Tensor,
    weights: LstmWeights,
    clips: Clips,
) -> tuple[Tensor, Tensor, Tensor]:
    """Read each row from its first token to its last.

    Args:
        inputs: (B, T, I), row b valid up to lengths[b].
        lengths: (B,) on the CPU.
        h: (B, P) output before the first token.
        c: (B, H) cell before the first token.
        weights: of this layer.
        clips: of this layer.

    Returns:
        Outputs (B, T, P), zero past a row's end, and h (B, P) and c (B, H) after its last token.
    """
    _, T, _ = inputs.shape
    is_there = torch.arange(T) < lengths.unsqueeze(1)  # (B, T)
    is_there = is_there.to(inputs.device, non_blocking=True)
    outputs = []
    for t in range(T):
        if t % BLOCK == 0:
            block = inputs[:, t : t + BLOCK]  # (B, up to BLOCK, I): bounds the memory of the gates
            from_inputs = linear_alike(block, weights.input, weights.bias)  # (B, up to BLOCK, 4H)
        gates = from_inputs[:, t % BLOCK] + F.linear(h, weights.recurrent)  # (B, 4H)
        new_h, new_c = lstm_cell(gates, c, weights.projection, clips)
        here = is_there[:, t].unsqueeze(1)  # (B, 1)
        h = torch.where(here, new_h, h)  # (B, P)
        c = torch.where(here, new_c, c)  # (B, H)
        outputs.append(torch.where(here, new_h, 0.0))
    if not outputs:
        return inputs.new_zeros(len(h), 0, h.shape[1]), h, c
    return torch.stack(outputs, 1), h, c  # (B, T, P), (B, P), (B, H)


def lstm_cell(
    gates: Tensor,
    c: Tensor,
    projection: Tensor | None,
    clips: Clips,
) -> tuple[Tensor, Tensor]:
    """One step from the sums of all gates (B, 4H) and the cell (B, H) to the next h and c."""
    i, f, g, o = gates.chunk(4, -1)  # each (B, H)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    if clips.cell is not None:
        c = c.clamp(-clips.cell, clips.cell)
    h = torch.sigmoid(o) * torch.tanh(c)  # (B, H)
    if projection is not None:
        h = F.linear(h, projection)  # (B, P)
        if clips.output is not None:  # TensorFlow's cell clips a projected output only
            h = h.clamp(-clips.output, clips.output)
    return h, c


def paired_lstm(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    weights: LstmWeights,
    clips: Clips,
) -> tuple[Tensor, Tensor, Tensor]:
    """Both directions of one layer, each reading its own tokens from the first step to the last.

    Args:
        x: (2, T, B, I), time first, each direction in its own reading order.
        h: (2, B, P) output before the first step.
        c: (2, B, H) cell before the first step.
        weights: stacked, (2, 4H, I), (2, 4H, P), (2, 4H), (2, P, H); the bias with the forget
            gate's 1.0 already in it.
        clips: of this layer.

    Returns:
        Outputs (2, T, B, P), and h and c after the last step. State is cut off from gradients.
    """
    outputs, hs, cs = [], [], []
    for d in range(2):
        h_now, c_now = h[d].detach(), c[d].detach()
        sums = F.linear(x[d], weights.input[d], weights.bias[d])  # (T, B, 4H)
        projection = None if weights.projection is None else weights.projection[d]
        steps = []
        for t in range(x.shape[1]):
            gates = sums[t] + F.linear(h_now, weights.recurrent[d])  # (B, 4H)
            h_now, c_now = lstm_cell(gates, c_now, projection, clips)
            steps.append(h_now)
        outputs.append(torch.stack(steps))  # (T, B, P)
        hs.append(h_now.detach())
        cs.append(c_now.detach())
    return torch.stack(outputs), torch.stack(hs), torch.stack(cs)


def linear_alike(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """F.linear whose rows do not depend, to the bit, on how few rows there are: (…, I) -> (…, O).

    So a word's vector is the same whatever words stand beside it, and a forward layer up to a token
    the same whatever follows.
    """
    rows = x.reshape(-1, x.shape[-1])
    missing = ROWS_ALIKE - len(rows)
    if missing <= 0 or len(rows) == 0 or torch.is_grad_enabled():
        return F.linear(x, weight, bias)
    padded = F.linear(F.pad(rows, (0, 0, 0, missing)), weight, bias)  # (ROWS_ALIKE, O)
    return padded[: len(rows)].view(*x.shape[:-1], -1)
