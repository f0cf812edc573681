"""A bidirectional LSTM over padded sentences, as task models stack them."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence


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
        T = x.shape[1]
        at_least_one = lengths.clamp(min=1)  # packing wants a token in every row
        for layer in self.layers:
            packed = pack_padded_sequence(
                self.dropout(x), at_least_one, batch_first=True, enforce_sorted=False
            )
            x, _ = pad_packed_sequence(run_packed(layer, packed), batch_first=True, total_length=T)
        return x  # (B, T, 2H)


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
