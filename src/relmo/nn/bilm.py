"""The biLM: words -> token vectors -> two language models that never see each other -> layers.

    words ──token_layer──▶ x ──forward_lstm───▶ →1 ─▶ →2 ─┐
                           │                             ├─▶ [x; x], [→1; ←1], [→2; ←2]
                           └──backward_lstm──▶ ←1 ─▶ ←2 ─┘

The directions share the token layer and nothing else; they are joined only when layers are handed
out. This is not a usual bidirectional LSTM, whose second layer reads both directions of the first.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from relmo.config import CharCnnConfig, ElmoConfig, Start
from relmo.nn import char_cnn, lstm, word_table
from relmo.nn.state import check_state, repeat_state, zero_state
from relmo.types import Batch, BiLmState, Layers, LstmState


class BiLM(nn.Module):
    """A bidirectional language model without its softmax."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = config
        self.token_layer: char_cnn.CharCnn | word_table.WordTable
        if isinstance(config.tokens, CharCnnConfig):
            self.token_layer = char_cnn.CharCnn(config.tokens)
        else:
            self.token_layer = word_table.WordTable(config.tokens)
        self.forward_lstm = lstm.LstmStack(config.lstm)
        self.backward_lstm = lstm.LstmStack(config.lstm)
        L, P, H = config.lstm.num_layers, config.lstm.output_width, config.lstm.cell_width
        self.start: Start = config.start
        """The state before a sentence; a model that carries one may begin from it or from zero."""
        stored = config.has_start_state
        for direction in ("forward", "backward"):
            self.register_buffer(f"start_{direction}_h", torch.zeros(L, P) if stored else None)
            self.register_buffer(f"start_{direction}_c", torch.zeros(L, H) if stored else None)

    def forward(self, batch: Batch, state: BiLmState | None = None) -> tuple[Layers, BiLmState]:
        """Read a batch, boundaries included, from a state (the start state unless one is given)."""
        vectors = self.token_layer(batch.words)  # (U, P), each distinct word once
        return self.read(vectors[batch.index], batch.lengths, state)

    def read(
        self, x: Tensor, lengths: Tensor, state: BiLmState | None = None
    ) -> tuple[Layers, BiLmState]:
        """Read token vectors (B, T, P) whose row b is valid up to lengths[b]."""
        B, T, _ = x.shape
        state = self.begin(state, B)
        turned = turn_within_length(lengths, T).to(x.device)  # (B, T)
        mask = (torch.arange(T) < lengths.unsqueeze(1)).to(x.device)  # (B, T)
        ahead, forward_state = self.forward_lstm(x, lengths, state.forward)
        behind, backward_state = self.backward_lstm(take(x, turned), lengths, state.backward)
        layers = join_directions(x, zip(ahead, behind, strict=True), turned, mask)
        return layers, BiLmState(forward_state, backward_state)

    def begin(self, state: BiLmState | None, batch_size: int) -> BiLmState:
        """The state to read on from: the one given, checked, or else the start state."""
        state = self.start_state(batch_size) if state is None else state
        check_state(state, self.config.lstm, batch_size)
        return state

    def start_state(self, batch_size: int, start: Start | None = None) -> BiLmState:
        """The state before a sentence, (L, batch_size, …): the model's own unless one is named."""
        if (start or self.start) == "zero":
            return zero_state(self.config.lstm, batch_size, like=next(self.parameters()))
        parts = [
            getattr(self, f"start_{direction}_{part}").unsqueeze(1)  # (L, 1, P or H)
            for direction in ("forward", "backward")
            for part in "hc"
        ]
        stored = BiLmState(LstmState(parts[0], parts[1]), LstmState(parts[2], parts[3]))
        return repeat_state(stored, batch_size)


def turn_within_length(lengths: Tensor, T: int) -> Tensor:
    """Positions that reverse each row within its own length and leave padding in place, (B, T)."""
    t = torch.arange(T)
    last = lengths.unsqueeze(1) - 1  # (B, 1)
    return torch.where(t <= last, last - t, t)


def join_directions(
    x: Tensor, outputs: Iterable[tuple[Tensor, Tensor]], turned: Tensor, mask: Tensor
) -> Layers:
    """Layers of token vectors and of what each LSTM layer made of them.

    Args:
        x: (B, T, P), which are layer 0 of both directions.
        outputs: forward and backward, each (B, T, P) in its own reading order.
        turned: (B, T) positions that reverse each row within its length.
        mask: (B, T) true where a token stands.
    """
    pairs = [(x, x), *((ahead, take(behind, turned)) for ahead, behind in outputs)]
    values = torch.stack([torch.cat(pair, -1) for pair in pairs])  # (L + 1, B, T, D)
    return Layers(values * mask.unsqueeze(-1), mask)  # zero where no token stands


def take(x: Tensor, positions: Tensor) -> Tensor:
    """Reorder the tokens of each row: (B, T, width) by (B, T)."""
    return x.gather(1, positions.unsqueeze(-1).expand(-1, -1, x.shape[-1]))


def initialize(bilm: BiLM, seed: int = 0) -> BiLM:
    """Fill fresh parameters at random, the same for the same seed; gives the module back."""
    generator = torch.Generator().manual_seed(seed)
    if isinstance(bilm.token_layer, char_cnn.CharCnn):
        char_cnn.initialize(bilm.token_layer, generator)
    else:
        word_table.initialize(bilm.token_layer, generator)
    lstm.initialize(bilm.forward_lstm, generator)
    lstm.initialize(bilm.backward_lstm, generator)
    return bilm
