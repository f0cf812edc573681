"""A bidirectional LSTM over padded sentences, as task models stack them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from relmo.kernels.device import has_triton_on, to_device
from relmo.kernels.packing import pack


class VariationalDropout(nn.Module):
    """Drops the same features at every token of a sentence: (B, T, F) -> (B, T, F)."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        """Drop features, in training."""
        if not self.training or self.share == 0:
            return x
        kept = torch.empty_like(x[:, :1]).bernoulli_(1 - self.share)  # (B, 1, F)
        return x * kept / (1 - self.share)


class Encoder(nn.Module):
    """Stacked biLSTM: (B, T, E) -> (B, T, 2H), 0 past a sentence's end.

    Args:
        width: E.
        cell_width: H, of each direction.
        num_layers: stacked.
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
            initialize_lstm(cast("nn.LSTM", layer))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Read sentences whose row b has lengths[b] tokens; lengths (B,) stand on the CPU."""
        B, T, _ = x.shape
        order = order_of(lengths, T, x.device)
        places = to_device(order.ahead, x.device)  # (N,)
        for layer in self.layers:
            h = order.read(layer, take(self.dropout(x), places))  # (N, 2H)
            x = put(h, places, B, T)
        return x  # (B, T, 2H)


class Order(NamedTuple):
    """How the N tokens of a padded batch (B, T) are read."""

    ahead: Tensor
    """(N,) their places in the batch, on the CPU."""
    behind: Tensor
    """(N,) the same where each sentence is read from its end."""
    read: Callable[[nn.Module, Tensor], Tensor]
    """Tokens (N, E) in that order, through a recurrent layer of D directions: (N, D H)."""


def order_of(lengths: Tensor, T: int, device: torch.device) -> Order:
    """The order that is read soonest there, of sentences of these lengths, (B,)."""
    if has_triton_on(device) and lengths.any():
        return _in_one_kernel(lengths, T, device)
    plan = pack(lengths.clamp(min=1))  # packing wants a token in every row
    ahead, behind = plan.places(T)  # each (N,)
    alive = torch.tensor(plan.alive)  # (T,)

    def read(layer: nn.Module, tokens: Tensor) -> Tensor:
        return run_packed(layer, PackedSequence(tokens, alive)).data

    return Order(ahead, behind, read)


def _in_one_kernel(lengths: Tensor, T: int, device: torch.device) -> Order:
    """Sentence by sentence; one kernel reads them all."""
    from relmo.kernels.triton_recurrent import recurrent_layer

    starts = lengths.cumsum(0) - lengths  # (B,)
    row = torch.repeat_interleave(lengths)  # (N,)
    step = torch.arange(len(row)) - starts[row]  # (N,)
    where = to_device(torch.stack([starts, lengths]).int(), device)  # (2, B)

    def read(layer: nn.Module, tokens: Tensor) -> Tensor:
        with torch.autocast(device.type, enabled=False):
            products, weight, bias = split_layer(cast("nn.LSTM", layer), tokens.float())
            return recurrent_layer(products, weight, bias, where[0], where[1]).flatten(1)

    return Order(row * T + step, row * T + lengths[row] - 1 - step, read)


def split_layer(layer: nn.LSTM | nn.GRU, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What a layer of D directions makes of tokens (N, E) before any step: (N, D, GH).

    And its weights of the step before (D, GH, H), and the bias that stays with them: (D, H) of a
    GRU's candidate, (D, 0) of an LSTM.
    """
    H = layer.hidden_size
    ends = ("", "_reverse") if layer.bidirectional else ("",)
    inner, outer, inner_bias, outer_bias = (
        torch.stack([getattr(layer, f"{name}_l0{end}") for end in ends])
        for name in ("weight_hh", "weight_ih", "bias_hh", "bias_ih")
    )
    apart = len(inner_bias[0]) - (H if isinstance(layer, nn.GRU) else 0)
    bias = outer_bias + nn.functional.pad(inner_bias[:, :apart], (0, len(inner_bias[0]) - apart))
    products = nn.functional.linear(tokens, outer.flatten(0, 1), bias.flatten())
    return products.view(len(tokens), len(ends), -1), inner, inner_bias[:, apart:]


def take(x: Tensor, places: Tensor) -> Tensor:
    """The tokens at N places of a padded batch: (B, T, E) -> (N, E).

    One copy for all of them, where torch's own packing makes one for each step.
    """
    return x.flatten(0, 1).index_select(0, places)


def put(tokens: Tensor, places: Tensor, B: int, T: int) -> Tensor:
    """Tokens back at their N places of a padded batch, 0 elsewhere: (N, F) -> (B, T, F)."""
    padded = tokens.new_zeros(B * T, tokens.shape[1])
    return padded.index_copy(0, places, tokens).view(B, T, -1)


def run_packed(layer: nn.Module, packed: PackedSequence) -> PackedSequence:
    """What a recurrent layer makes of packed sentences, in float32.

    Autocast to bfloat16 would give cuDNN float16 instead, in which small gradients become 0.
    """
    with torch.autocast(packed.data.device.type, enabled=False):
        found: PackedSequence = layer(packed._replace(data=packed.data.float()))[0]
    return found


def initialize_lstm(layer: nn.LSTM) -> None:
    """Orthogonal recurrences; an LSTM's forget gates begin open."""
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
