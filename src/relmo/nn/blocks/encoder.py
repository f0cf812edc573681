"""Stacked bidirectional LSTMs or GRUs over padded sentences, the encoder of the task models."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from relmo.kernels.device import has_triton, to_device
from relmo.kernels.packing import pack


class VariationalDropout(nn.Module):
    """Drops the same features at every token of a sentence: (B, T, F) -> (B, T, F)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Drop features in training."""
        if not self.training or self.rate == 0:
            return x
        kept = torch.empty_like(x[:, :1]).bernoulli_(1 - self.rate)  # (B, 1, F)
        return x * kept / (1 - self.rate)  # (B, T, F)


class RecurrentEncoder(nn.Module):
    """Stacked biLSTM or biGRU: (B, T, E) -> (B, T, 2H), 0 past the end of a sentence.

    Args:
        width: E.
        cell_width: H, of each direction.
        num_layers: stacked layers.
        dropout: variational, before each layer.
        kind: "lstm" or "gru".
    """

    def __init__(
        self,
        width: int,
        cell_width: int,
        num_layers: int = 1,
        dropout: float = 0.0,
        kind: str = "lstm",
    ) -> None:
        super().__init__()
        make = nn.LSTM if kind == "lstm" else nn.GRU
        widths = [width, *[2 * cell_width] * (num_layers - 1)]
        self.width = 2 * cell_width
        self.layers = nn.ModuleList(
            make(w, cell_width, batch_first=True, bidirectional=True) for w in widths
        )
        self.dropout = VariationalDropout(dropout)
        for layer in self.layers:
            initialize_recurrent(cast("nn.LSTM", layer))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Encode sentences; row b has lengths[b] tokens, and lengths (B,) are on the CPU."""
        B, T, _ = x.shape
        order = token_order(lengths, T, x.device)
        places = to_device(order.ahead, x.device)  # (N,)
        for layer in self.layers:
            h = order.read(layer, take(self.dropout(x), places))  # (N, 2H)
            x = put(h, places, B, T)
        return x  # (B, T, 2H)


class TokenOrder(NamedTuple):
    """In which order the N tokens of a padded batch (B, T) are read, and how."""

    ahead: Tensor
    """(N,) places of the tokens in the batch, on the CPU."""
    behind: Tensor
    """(N,) the same for sentences read from their ends."""
    read: Callable[[nn.Module, Tensor], Tensor]
    """Runs tokens (N, E) in that order through a recurrent layer of D directions: (N, D H)."""


def token_order(lengths: Tensor, T: int, device: torch.device) -> TokenOrder:
    """The order that is fastest on the device, for sentences of these lengths, (B,)."""
    if has_triton(device) and lengths.any():
        return _in_one_kernel(lengths, T, device)
    plan = pack(lengths.clamp(min=1))  # packing needs a token in every row
    ahead, behind = plan.places(T)  # each (N,)
    alive = torch.tensor(plan.alive)  # (T,)

    def read(layer: nn.Module, tokens: Tensor) -> Tensor:
        return run_packed(layer, PackedSequence(tokens, alive)).data

    return TokenOrder(ahead, behind, read)


def _in_one_kernel(lengths: Tensor, T: int, device: torch.device) -> TokenOrder:
    """Sentence by sentence, for a kernel that reads all sentences at once."""
    from relmo.kernels.triton_recurrent import recurrent_layer

    starts = lengths.cumsum(0) - lengths  # (B,)
    row = torch.repeat_interleave(lengths)  # (N,)
    step = torch.arange(len(row)) - starts[row]  # (N,)
    where = to_device(torch.stack([starts, lengths]).int(), device)  # (2, B)

    def read(layer: nn.Module, tokens: Tensor) -> Tensor:
        with torch.autocast(device.type, enabled=False):
            products, weight, bias = split_layer(cast("nn.LSTM", layer), tokens.float())
            return recurrent_layer(products, weight, bias, where[0], where[1]).flatten(1)

    return TokenOrder(row * T + step, row * T + lengths[row] - 1 - step, read)


def split_layer(layer: nn.LSTM | nn.GRU, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Split a layer of D directions and G gates into the products before and in the recurrence.

    Returns the products of the tokens (N, E) with the input weights (N, D, GH), the recurrent
    weights (D, GH, H), and the bias added in the recurrence: (D, H) of a GRU's candidate, (D, 0) of
    an LSTM.
    """
    H = layer.hidden_size
    ends = ("", "_reverse") if layer.bidirectional else ("",)
    inner, outer, inner_bias, outer_bias = (
        torch.stack([getattr(layer, f"{name}_l0{end}") for end in ends])
        for name in ("weight_hh", "weight_ih", "bias_hh", "bias_ih")
    )
    apart = len(inner_bias[0]) - (H if isinstance(layer, nn.GRU) else 0)
    bias = outer_bias + nn.functional.pad(inner_bias[:, :apart], (0, len(inner_bias[0]) - apart))
    products = nn.functional.linear(tokens, outer.flatten(0, 1), bias.flatten())  # (N, D GH)
    return products.view(len(tokens), len(ends), -1), inner, inner_bias[:, apart:]


def take(x: Tensor, places: Tensor) -> Tensor:
    """The tokens at N places of a padded batch: (B, T, E) -> (N, E).

    This is one copy, while torch's own packing makes one per step.
    """
    return x.flatten(0, 1).index_select(0, places)  # (N, E)


def put(tokens: Tensor, places: Tensor, B: int, T: int) -> Tensor:
    """The tokens back at their N places of a padded batch, 0 elsewhere: (N, F) -> (B, T, F)."""
    padded = tokens.new_zeros(B * T, tokens.shape[1])  # (B T, F)
    return padded.index_copy(0, places, tokens).view(B, T, -1)


def run_packed(layer: nn.Module, packed: PackedSequence) -> PackedSequence:
    """Run a recurrent layer on packed sentences in float32.

    Under bfloat16 autocast, cuDNN would use float16, in which small gradients become 0.
    """
    with torch.autocast(packed.data.device.type, enabled=False):
        found: PackedSequence = layer(packed._replace(data=packed.data.float()))[0]
    return found


def initialize_recurrent(layer: nn.LSTM) -> None:
    """Make the recurrence orthogonal and open an LSTM's forget gates."""
    for name, weight in layer.named_parameters():
        if "weight_hh" in name:
            for gate in weight.data.chunk(weight.shape[0] // layer.hidden_size):
                nn.init.orthogonal_(gate)
        elif "weight_ih" in name:
            nn.init.xavier_uniform_(weight)
        else:
            nn.init.zeros_(weight)
            if isinstance(layer, nn.LSTM) and "bias_ih" in name:
                weight.data[layer.hidden_size : 2 * layer.hidden_size] = 1.0
