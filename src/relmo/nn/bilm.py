"""The biLM: words -> token vectors -> two language models that never see each other -> layers.

    words ──token_layer──▶ x ──forward_lstm───▶ →1 ─▶ →2 ─┐
                           │                             ├─▶ [x; x], [→1; ←1], [→2; ←2]
                           └──backward_lstm──▶ ←1 ─▶ ←2 ─┘

The directions share the token layer and nothing else; `join_directions` joins them only when the
layers are returned. This is not a usual bidirectional LSTM, whose second layer reads both
directions of the first. State is an argument and a result; the module itself stores none.

`run_stack` is the recurrence over layers: which layer reads what, where the skip connection goes,
what becomes of the state. Whoever runs the LSTMs (the plain modules here, the training kernels, the
CPU and GPU engines of `relmo.runtime`) supplies the arithmetic of one layer alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from relmo.config import CharCnnConfig, ElmoConfig, LstmConfig, Start
from relmo.errors import ConfigError
from relmo.kernels import cpu_training, reference
from relmo.kernels.device import has_triton, to_device, uses_fast_kernels
from relmo.kernels.packing import Packing, join_directions, pack
from relmo.nn import token_layers
from relmo.types import Batch, BiLmState, Layers, LstmState

LayerArithmetic = Callable[[int, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
"""(depth, inputs, h, c) -> outputs, and h and c after the last token, of one layer."""
FORGET_BIAS = 1.0
"""TensorFlow adds this at run time; files do not hold it, and nor do our parameters."""
Outputs = Sequence[Sequence[Tensor] | Tensor]
"""Of each LSTM layer, forward and backward, (S, P) each."""


class Engine(Protocol):
    """Runs the LSTMs of both directions over packed tokens."""

    def read_packed(
        self, rows: Tensor, packing: Packing, state: BiLmState
    ) -> tuple[Outputs, BiLmState]:
        """Read token vectors (2, S, P), packed in each direction's reading order."""


class BiLM(nn.Module):
    """A bidirectional language model without its softmax."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = config
        self.token_layer: token_layers.CharCnn | token_layers.WordTable
        if isinstance(config.tokens, CharCnnConfig):
            self.token_layer = token_layers.CharCnn(config.tokens)
        else:
            self.token_layer = token_layers.WordTable(config.tokens)
        self.forward_lstm = LstmStack(config.lstm)
        self.backward_lstm = LstmStack(config.lstm)
        L, P, H = config.lstm.num_layers, config.lstm.output_width, config.lstm.cell_width
        self.start: Start = config.start
        """The state before a sentence; a model that stores one may start from it or from zero."""
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
        return read_sentences(self, x, lengths, self.begin(state, x.shape[0]))

    def read_packed(
        self, rows: Tensor, packing: Packing, state: BiLmState
    ) -> tuple[Outputs, BiLmState]:
        """Read token vectors (2, S, P) by the plain modules: the reference for every engine."""
        B, T = len(packing.lengths), len(packing.alive)
        where = to_device(packing.sentence, rows.device), to_device(packing.step, rows.device)
        found = []
        stacks = (self.forward_lstm, state.forward), (self.backward_lstm, state.backward)
        for (stack, before), tokens in zip(stacks, rows, strict=True):
            x = tokens.new_zeros(B, T, tokens.shape[1]).index_put(where, tokens)  # (B, T, P)
            outputs, after = stack(x, packing.lengths, before)
            found.append(([y[where] for y in outputs], after))  # (S, P) each
        (ahead, forward), (behind, backward) = found
        return list(zip(ahead, behind, strict=True)), BiLmState(forward, backward)

    def read_padded(self, x: Tensor, lengths: Tensor) -> Layers:
        """Like `read` from the start state, for training; GPU kernels also process the padding.

        What they read past a sentence's end is discarded and passes no gradient, so there is no
        state to return. Backward can be called only once: the kernels overwrite their memory.
        """
        if not has_kernels(self):
            return self.read(x, lengths)[0]
        B, T, P = x.shape
        kind = x.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        packing = pack(lengths)
        places = to_device(packing.places(T), x.device)  # (2, S)
        read = to_device(packing.step * B + packing.sentence, x.device)  # (S,), time first
        both = x.new_zeros(2, T * B, P)
        both[:, read] = x.reshape(B * T, P)[places]
        with torch.autocast(kind, enabled=False):
            windows = both.view(2, T, B, P).to(dtype)
            stacks = self.forward_lstm, self.backward_lstm
            found, _ = read_windows(*stacks, windows, self.start_state(B))
        outputs = [y.flatten(1, 2)[:, read].to(x.dtype) for y in found]  # (2, S, P)
        return join_directions(x, lengths, places, outputs)

    def begin(self, state: BiLmState | None, batch_size: int) -> BiLmState:
        """The state to read on from: the one given, checked, or else the start state."""
        if state is None:
            return self.start_state(batch_size)
        check_state(state, self.config.lstm, batch_size)
        return state

    def start_state(self, batch_size: int, start: Start | None = None) -> BiLmState:
        """The state before a sentence, (L, B, ...): the model's own unless one is named."""
        if (start or self.start) == "zero":
            return zero_state(self.config.lstm, batch_size, like=next(self.parameters()))
        parts = [
            getattr(self, f"start_{direction}_{part}").unsqueeze(1)  # (L, 1, P or H)
            for direction in ("forward", "backward")
            for part in "hc"
        ]
        stored = BiLmState(LstmState(parts[0], parts[1]), LstmState(parts[2], parts[3]))
        return map_state(lambda part: part.expand(-1, batch_size, -1), stored)


def read_sentences(
    engine: Engine, x: Tensor, lengths: Tensor, state: BiLmState
) -> tuple[Layers, BiLmState]:
    """All layers of token vectors (B, T, P) whose row b is valid up to lengths[b]; state after."""
    B, T, P = x.shape
    packing = pack(lengths)
    places = to_device(packing.places(T), x.device)  # (2, S)
    outputs, after = engine.read_packed(x.reshape(B * T, P)[places], packing, state)
    return join_directions(x, lengths, places, outputs), after


def has_kernels(bilm: BiLM) -> bool:
    """Whether the biLM's LSTMs can run as Triton kernels where it is."""
    weight = next(bilm.parameters())
    is_float32 = weight.dtype == torch.float32
    return bilm.config.lstm.has_projection and is_float32 and has_triton(weight.device)


# ── LSTMs ─────────────────────────────────────────────────────────────────────────────────────────


def run_stack(
    layer: LayerArithmetic, x: Tensor, state: LstmState, config: LstmConfig
) -> tuple[list[Tensor], LstmState]:
    """Outputs of every layer, and the state after the last token.

    The state holds each layer's own output, before the skip connection is added: the recurrence
    uses that one.

    Args:
        layer: the arithmetic of one layer.
        x: (..., P) token vectors, in any arrangement that `layer` understands.
        state: (L, ..., P) and (L, ..., H) before the first token.
        config: of the stack.
    """
    outputs, hs, cs = [], [], []
    for depth in range(config.num_layers):
        y, h, c = layer(depth, x, state.h[depth], state.c[depth])
        x = y + x if depth > 0 and config.has_skips else y
        outputs.append(x)
        hs.append(h)
        cs.append(c)
    return outputs, LstmState(h=torch.stack(hs), c=torch.stack(cs))


class LstmLayer(nn.Module):
    """One projected, clipped LSTM layer; gates in the order input, forget, candidate, output."""

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        H, P = config.cell_width, config.output_width
        self.config = config
        self.input_weight = nn.Parameter(torch.empty(4 * H, P))
        self.recurrent_weight = nn.Parameter(torch.empty(4 * H, P))
        self.bias = nn.Parameter(torch.empty(4 * H))
        """Without the forget gate's 1.0, which is added at run time."""
        self.projection = nn.Parameter(torch.empty(P, H)) if config.has_projection else None

    @property
    def weights(self) -> reference.LstmWeights:
        """The parameters as kernels take them, the forget gate's 1.0 added to the bias."""
        bias = with_forget_bias(self.bias)  # (4H,)
        return reference.LstmWeights(
            self.input_weight, self.recurrent_weight, bias, self.projection
        )

    def forward(
        self, inputs: Tensor, lengths: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read (B, T, P) from state (B, P), (B, H); return outputs (B, T, P), state after."""
        clips = reference.Clips(self.config.cell_clip, self.config.output_clip)
        return reference.projected_lstm(inputs, lengths, h, c, self.weights, clips)


class LstmStack(nn.Module):
    """L layers, each reading the one below; from the second on with a skip connection if asked."""

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(LstmLayer(config) for _ in range(config.num_layers))

    def layer(self, depth: int) -> LstmLayer:
        """The layer at a depth, from 0."""
        return cast("LstmLayer", self.layers[depth])

    def forward(
        self, inputs: Tensor, lengths: Tensor, state: LstmState
    ) -> tuple[list[Tensor], LstmState]:
        """Each layer's outputs (B, T, P) of (B, T, P), and the state after each last token."""

        def layer(depth: int, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            y, h, c = self.layers[depth](x, lengths, h, c)
            return y, h, c

        return run_stack(layer, inputs, state, self.config)


def read_windows(
    forward_lstm: LstmStack,
    backward_lstm: LstmStack,
    x: Tensor,
    state: BiLmState,
    dropout: float = 0.0,
) -> tuple[list[Tensor], BiLmState]:
    """Each layer's outputs (2, T, B, P), forward then backward, of token vectors (2, T, B, P).

    For training: both directions at once, each reading its own text to the end of the window. No
    gradient flows through the state. Dropout applies to what each layer reads; the skip connection
    goes around it.
    """
    config = forward_lstm.config
    paired_lstm: Callable[..., tuple[Tensor, Tensor, Tensor]] = reference.paired_lstm
    if config.has_projection and has_triton(x.device):
        from relmo.kernels import triton_lstm

        paired_lstm = triton_lstm.paired_lstm
    elif x.device.type == "cpu" and uses_fast_kernels():
        paired_lstm = cpu_training.paired_lstm

    def layer(depth: int, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weights = stack_weights(forward_lstm.layer(depth), backward_lstm.layer(depth), x.dtype)
        inputs = F.dropout(x, dropout) if dropout else x
        clips = reference.Clips(config.cell_clip, config.output_clip)
        y, h, c = paired_lstm(inputs, h.to(x.dtype), c, weights, clips)
        return y, h.to(c.dtype), c

    outputs, after = run_stack(layer, x, stack_directions(state), config)
    return outputs, split_directions(after)


def stack_weights(
    forward_layer: LstmLayer, backward_layer: LstmLayer, dtype: torch.dtype
) -> reference.LstmWeights:
    """One layer's weights of both directions, stacked."""
    pair = forward_layer.weights, backward_layer.weights

    def stacked(*parts: Tensor) -> Tensor:
        return torch.stack([part.to(dtype) for part in parts])

    projections = [layer.projection for layer in pair if layer.projection is not None]
    return reference.LstmWeights(
        input=stacked(*(layer.input for layer in pair)),  # (2, 4H, P)
        recurrent=stacked(*(layer.recurrent for layer in pair)),  # (2, 4H, P)
        bias=stacked(*(layer.bias for layer in pair)),  # (2, 4H)
        projection=stacked(*projections) if projections else None,  # (2, P, H)
    )


# ── state ─────────────────────────────────────────────────────────────────────────────────────────


def zero_state(config: LstmConfig, batch_size: int, like: Tensor) -> BiLmState:
    """Zeros for batch_size rows, on the device and in the dtype of `like`."""

    def direction() -> LstmState:
        L, B, P, H = config.num_layers, batch_size, config.output_width, config.cell_width
        return LstmState(h=like.new_zeros(L, B, P), c=like.new_zeros(L, B, H))

    return BiLmState(forward=direction(), backward=direction())


def check_state(state: BiLmState, config: LstmConfig, batch_size: int) -> None:
    """Raise ConfigError unless the state has the shape of batch_size rows of such a model."""
    L, B, P, H = config.num_layers, batch_size, config.output_width, config.cell_width
    for name, part in (("forward", state.forward), ("backward", state.backward)):
        found = tuple(part.h.shape), tuple(part.c.shape)
        if found != ((L, B, P), (L, B, H)):
            raise ConfigError(
                f"expected a {name} state of shapes {(L, B, P)} and {(L, B, H)} for {B} sentences, "
                f"got {found[0]} and {found[1]}; pass the state returned for the same rows"
            )


def map_state(change: Callable[..., Tensor], *states: BiLmState) -> BiLmState:
    """Apply a function to all four tensors, each (L, B, width), of one state or of several."""
    return BiLmState(
        forward=LstmState(
            h=change(*(s.forward.h for s in states)), c=change(*(s.forward.c for s in states))
        ),
        backward=LstmState(
            h=change(*(s.backward.h for s in states)), c=change(*(s.backward.c for s in states))
        ),
    )


def with_forget_bias(bias: Tensor) -> Tensor:
    """Add 1.0 to the forget gate's quarter of the bias (4H,)."""
    H = bias.shape[0] // 4
    quarter = torch.zeros_like(bias)
    quarter[H : 2 * H] = FORGET_BIAS
    return bias + quarter


def stack_directions(state: BiLmState) -> LstmState:
    """Both directions in one: (L, 2, B, P) and (L, 2, B, H)."""
    forward, backward = state.forward, state.backward
    h, c = torch.stack([forward.h, backward.h], 1), torch.stack([forward.c, backward.c], 1)
    return LstmState(h, c)


def split_directions(state: LstmState) -> BiLmState:
    """The inverse of `stack_directions`."""
    h, c = state.h, state.c
    return BiLmState(LstmState(h[:, 0], c[:, 0]), LstmState(h[:, 1], c[:, 1]))


def initialize(bilm: BiLM, seed: int = 0) -> BiLM:
    """Fill new parameters at random, the same for the same seed; returns the module."""
    generator = torch.Generator().manual_seed(seed)
    token_layers.initialize(bilm.token_layer, generator)
    initialize_stack(bilm.forward_lstm, generator)
    initialize_stack(bilm.backward_lstm, generator)
    return bilm


def initialize_stack(stack: LstmStack, generator: torch.Generator) -> None:
    """Fill the new parameters of one direction at random."""
    for depth in range(stack.config.num_layers):
        layer = stack.layer(depth)
        H, P = layer.config.cell_width, layer.config.output_width
        nn.init.normal_(layer.input_weight, 0.0, P**-0.5, generator=generator)
        nn.init.normal_(layer.recurrent_weight, 0.0, P**-0.5, generator=generator)
        nn.init.zeros_(layer.bias)
        if layer.projection is not None:
            nn.init.normal_(layer.projection, 0.0, H**-0.5, generator=generator)
