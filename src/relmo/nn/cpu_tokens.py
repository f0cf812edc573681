"""The character CNN on a CPU: its highways and projection, most of its work, packed."""

from __future__ import annotations

import torch
from torch import Tensor

from relmo.kernels import reference
from relmo.kernels.cpu_products import Product, make_product
from relmo.nn.char_cnn import CharCnn, Highway


class CpuTokens:
    """Token vectors of words, always in float32: layer 0 is exact in every precision."""

    def __init__(self, cnn: CharCnn) -> None:
        self.cnn = cnn
        self._highways = [_pack(highway) for highway in cnn.highways]
        self._projection = None
        if cnn.projection is not None:
            self._projection = make_product(cnn.projection.weight, "float32")

    @torch.no_grad()
    def __call__(self, words: Tensor) -> Tensor:
        """Token vectors, (N, C) -> (N, P): see `CharCnn.forward`."""
        x = self.cnn.features(self.cnn.without_needless_padding(words))  # (N, F)
        for product, bias in self._highways:
            transformed, carried = product(x).add_(bias).chunk(2, 1)  # each (N, F)
            x = reference.highway(x, transformed, carried)
        if self._projection is None or self.cnn.projection is None:
            return x
        return self._projection(x).add_(self.cnn.projection.bias)  # (N, P)


def _pack(highway: torch.nn.Module) -> tuple[Product, Tensor]:
    """Both matrices of a highway as one, (2F, F), and their biases, (2F,)."""
    assert isinstance(highway, Highway)
    parts = highway.transform, highway.carry
    weight = torch.cat([part.weight.detach() for part in parts])
    return make_product(weight, "float32"), torch.cat([part.bias.detach() for part in parts])
