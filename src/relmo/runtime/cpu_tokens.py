"""The character CNN on a CPU: convolutions from tables, highways and projection packed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from relmo.kernels.cpu_char_cnn import LetterTables
from relmo.kernels.cpu_products import Product, make_product
from relmo.kernels.side_by_side import run_both
from relmo.nn.char_cnn import CharCnn, Highway
from relmo.nn.uninitialized import Linear

TABLE_BYTES = 64 * 2**20
"""A large alphabet's tables would take more: its convolutions stay products."""
AT_ONCE = 256
"""Words that go through together: bounds memory, and products of that many rows are fast."""
SHARED = 64
"""From so many words on each thread takes half of them; fewer are done sooner by one."""


class CpuTokens:
    """Token vectors of words, always in float32: layer 0 is exact in every precision."""

    def __init__(self, cnn: CharCnn) -> None:
        self.features = _features(cnn)
        self.highways = [_pack_highway(highway) for highway in cnn.highways]
        self.projection = None if cnn.projection is None else _Packed(cnn.projection)
        filters = sum(len(bias) for _, bias in cnn.filters())
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
        for start in range(0, len(words), AT_ONCE):
            x = self.features(words[start : start + AT_ONCE])  # (up to AT_ONCE, F)
            for transform, carry in self.highways:
                x = torch.lerp(x, transform(x).relu_(), carry(x).sigmoid_())
            result[start : start + AT_ONCE] = x if self.projection is None else self.projection(x)
        return result


class _Packed:
    """A linear layer, ready to be multiplied by."""

    def __init__(self, linear: Linear) -> None:
        self.product: Product = make_product(linear.weight, "float32")
        self.bias = linear.bias.detach()  # (O,)

    def __call__(self, x: Tensor) -> Tensor:
        """(n, I) -> (n, O)."""
        return self.product(x).add_(self.bias)


def _pack_highway(highway: torch.nn.Module) -> tuple[_Packed, _Packed]:
    assert isinstance(highway, Highway)
    return _Packed(highway.transform), _Packed(highway.carry)


def _features(cnn: CharCnn) -> Callable[[Tensor], Tensor]:
    """`CharCnn.features`, (n, C) -> (n, F), from tables where these are not too large."""
    embedding, filters = cnn.embedding.weight.detach(), cnn.filters()
    if LetterTables.bytes_of(embedding, filters) > TABLE_BYTES:
        return lambda words: cnn.features(cnn.without_needless_padding(words))
    filters = [(weight.detach(), bias.detach()) for weight, bias in filters]
    return LetterTables(embedding, filters, cnn.activation, cnn.padding)
