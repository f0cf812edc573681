"""A biLM with packed weights: the reference's numbers, several times faster, no gradients.

`CpuEngine` runs the LSTMs, one thread per direction; `GpuEngine` runs both directions at once by
Triton kernels. `CpuTokenLayer` runs the character CNN on a CPU, with convolutions from tables,
highways and projection packed; on a GPU the plain module is fast enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from relmo.kernels.char_cnn import LetterTables, filters_of
from relmo.kernels.cpu_lstm import PackedLstm
from relmo.kernels.cpu_products import Precision, Product, make_product
from relmo.kernels.device import to_device
from relmo.kernels.packing import Packing, StepRows, plan_step_rows
from relmo.kernels.reference import Clips
from relmo.kernels.threads import run_both
from relmo.nn.bilm import (
    BiLM,
    LstmStack,
    Outputs,
    run_stack,
    split_directions,
    stack_directions,
    stack_weights,
)
from relmo.nn.token_layers import CharCnn, Highway, Linear
from relmo.runtime.host import one_thread, release_pages, trim_memory
from relmo.types import BiLmState, LstmState

LARGE = 16 * 2**20
"""Bytes of a batch's layers from which on freed memory is trimmed between phases of the work."""
TABLE_BYTES = 64 * 2**20
"""The tables of a large alphabet would take more: its convolutions stay products."""
WORDS_AT_ONCE = 256
"""Words that go through together: bounds memory, and products of that many rows are fast."""
SHARED = 64
"""From so many words on each thread takes half of them; fewer are done sooner by one."""


class CpuEngine:
    """Runs the LSTMs of a biLM whose weights do not change.

    Args:
        bilm: on the CPU.
        precision: of the LSTMs' products.
    """

    def __init__(self, bilm: BiLM, precision: Precision) -> None:
        self.config = bilm.config.lstm
        self._forward = _pack_stack(bilm.forward_lstm, precision)
        self._backward = _pack_stack(bilm.backward_lstm, precision)
        trim_memory()  # what packing needed besides

    @torch.no_grad()
    def read_packed(
        self, rows: Tensor, packing: Packing, state: BiLmState
    ) -> tuple[Outputs, BiLmState]:
        """Read token vectors (2, S, P), packed in each direction's reading order."""
        is_large = (self.config.num_layers + 1) * rows.nbytes >= LARGE
        if is_large:
            trim_memory()  # freed by the batch before
        ahead, behind = run_both(
            lambda: self._read(self._forward, rows[0], packing, state.forward),
            lambda: self._read(self._backward, rows[1], packing, state.backward),
        )
        if is_large:
            trim_memory()  # freed by the directions
        return list(zip(ahead[0], behind[0], strict=True)), BiLmState(ahead[1], behind[1])

    def _read(
        self, stack: list[PackedLstm], x: Tensor, packing: Packing, state: LstmState
    ) -> tuple[list[Tensor], LstmState]:
        """One direction: tokens (S, P) in its own order -> each layer's outputs (S, P), state."""
        order, back = packing.order, torch.argsort(packing.order)  # longest first, and back again

        def layer(depth: int, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            y, h, c = stack[depth].read(x, packing.alive, h[order], c[order])
            return y, h[back], c[back]

        return run_stack(layer, x, state, self.config)


class GpuEngine:
    """Runs the LSTMs of a biLM whose weights do not change.

    Args:
        bilm: on the GPU, its LSTMs with a projection.
        dtype: of the products: float32 or bfloat16.
    """

    def __init__(self, bilm: BiLM, dtype: torch.dtype) -> None:
        from relmo.kernels.triton_lstm import join_weights  # imports Triton

        self.config, self.dtype = bilm.config.lstm, dtype
        forward, backward = bilm.forward_lstm, bilm.backward_lstm
        self._layers = [
            join_weights(stack_weights(forward.layer(depth), backward.layer(depth), dtype))
            for depth in range(self.config.num_layers)
        ]

    @torch.no_grad()
    def read_packed(
        self, rows: Tensor, packing: Packing, state: BiLmState
    ) -> tuple[Outputs, BiLmState]:
        """Read token vectors (2, S, P), packed in each direction's reading order."""
        from relmo.kernels.triton_lstm import read_packed

        device, config = rows.device, self.config
        orders = packing.order, torch.argsort(packing.order)  # longest first, and back again
        order, back = (to_device(each, device) for each in orders)  # each (B,)
        steps, inputs, last = plan_step_rows(packing.alive)
        plan = StepRows(steps, to_device(inputs, device), to_device(last, device))
        clips = Clips(config.cell_clip, config.output_clip)

        def layer(depth: int, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            h, c = h[:, order].to(self.dtype), c[:, order]  # (2, B, P), (2, B, H)
            y, h, c = read_packed(x, plan, h, c, self._layers[depth], clips)
            return y, h[:, back].float(), c[:, back]

        before = stack_directions(state)
        outputs, after = run_stack(layer, rows.to(self.dtype), before, config)
        return [y.float() for y in outputs], split_directions(after)


class CpuTokenLayer:
    """Token vectors of words, always in float32: layer 0 is exact in every precision."""

    def __init__(self, cnn: CharCnn) -> None:
        self.features = _make_features(cnn)
        self.highways = [_pack_highway(highway) for highway in cnn.highways]
        self.projection = None if cnn.projection is None else _PackedLinear(cnn.projection)
        filters = sum(cast("torch.nn.Conv1d", conv).out_channels for conv in cnn.convs)
        self.width = filters if cnn.projection is None else cnn.projection.out_features

    @torch.no_grad()
    def __call__(self, words: Tensor) -> Tensor:
        """Token vectors, (N, C) -> (N, P): see `CharCnn.forward`."""
        is_shared = len(words) >= SHARED and torch.get_num_threads() > 1
        one, other = (words[::2], words[1::2]) if is_shared else (words, words[:0])
        vectors, others = run_both(lambda: self._vectors(one), lambda: self._vectors(other))
        if not is_shared:
            return vectors
        result = vectors.new_empty(len(words), self.width)  # (N, P)
        result[::2], result[1::2] = vectors, others
        return result

    def _vectors(self, words: Tensor) -> Tensor:
        """A part of the words, (n, C) -> (n, P)."""
        result = torch.empty(len(words), self.width, dtype=torch.float32)  # (n, P)
        for start in range(0, len(words), WORDS_AT_ONCE):
            some = slice(start, start + WORDS_AT_ONCE)
            x = self.features(words[some])  # (up to WORDS_AT_ONCE, F)
            for transform, carry in self.highways:
                x = torch.lerp(x, transform(x).relu_(), carry(x).sigmoid_())
            result[some] = x if self.projection is None else self.projection(x)
        return result


class _PackedLinear:
    """A packed linear layer."""

    def __init__(self, linear: Linear) -> None:
        self.product: Product = pack_weight(linear.weight, "float32", rows_alike=True)
        self.bias = linear.bias.detach()  # (O,)

    def __call__(self, x: Tensor) -> Tensor:
        """(n, I) -> (n, O)."""
        return self.product(x).add_(self.bias)


def pack_weight(
    weight: Tensor, precision: Precision, *, many_rows: bool = False, rows_alike: bool = False
) -> Product:
    """A weight (N, K), packed; the memory of the original is released if its file still has it."""
    with one_thread():  # MKL packs for torch's threads: with three or more, rows would differ
        product = make_product(weight, precision, many_rows=many_rows, rows_alike=rows_alike)
    shared = getattr(product, "weight", None)
    if shared is None or shared.data_ptr() != weight.data_ptr():
        release_pages(weight)
    return product


def _pack_stack(stack: LstmStack, precision: Precision) -> list[PackedLstm]:
    found = []
    for depth in range(stack.config.num_layers):
        weights, config = stack.layer(depth).weights, stack.config
        projection = weights.projection
        found.append(
            PackedLstm(
                input_product=pack_weight(weights.input, precision, many_rows=True),
                recurrent=pack_weight(weights.recurrent, precision),
                bias=weights.bias.detach(),
                projection=None if projection is None else pack_weight(projection, precision),
                clips=Clips(config.cell_clip, config.output_clip),
            )
        )
    return found


def _pack_highway(highway: torch.nn.Module) -> tuple[_PackedLinear, _PackedLinear]:
    assert isinstance(highway, Highway)
    return _PackedLinear(highway.transform), _PackedLinear(highway.carry)


def _make_features(cnn: CharCnn) -> Callable[[Tensor], Tensor]:
    """`CharCnn.features`, (n, C) -> (n, F), from tables unless these are too large."""
    filters = [(weight.detach(), bias.detach()) for weight, bias in filters_of(cnn.convs)]
    embedding = cnn.embedding.weight.detach()
    if LetterTables.bytes_of(embedding, filters) > TABLE_BYTES:
        return lambda words: cnn.features(cnn.without_unneeded_padding(words))
    return LetterTables(embedding, filters, cnn.activation, cnn.padding)
