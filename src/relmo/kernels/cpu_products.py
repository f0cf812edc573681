"""Matrix products whose weights are packed once, for CPUs: y = x W^T, (n, K) -> (n, N) float32.

    float32     MKL's packed form where torch has it, else W stored (K, N); for many rows at once
                W as it is: packing would gain nothing there and cost as much memory again
    bfloat16    oneDNN's packed form, sums in float32; a CPU without such instructions multiplies
                rounded weights in float32, which is no faster
    int8        8-bit integers: weights with a scale per output, inputs with a scale per row, so
                a row's result does not depend on the rows beside it

Torch's own packed products have no public names; where one is missing the plain product is used.

Some hypervisors expose a CPU's matrix tiles (AMX) but hide leaf 29 of CPUID, which gives their
size. oneDNN then configures tiles of size zero, and the first product in bfloat16 or int8 ends the
process with an illegal instruction; `avoid_hidden_tiles` prevents that.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from relmo.kernels.reference import ROWS_ALIKE, linear_alike

Precision = Literal["float32", "bfloat16", "int8"]
MKL_ROWS = 256
"""Rows that MKL packs for: as fast for few as packing for few, and faster for a hundred."""
ONEDNN_ROWS = 64
"""Rows that oneDNN packs for; other numbers work too."""
TILE_ROWS, TILE_BLOCK = 32, 128
"""Rows of bfloat16 multiplied at once with matrix tiles: at most, and padded to."""
MANY_ROWS = 2**31
CPUINFO = Path("/proc/cpuinfo")
"""Linux: the properties of each core, one after the other."""
FIRST_CORE = 8192
"""Bytes that contain the first core's part."""
ONEDNN_LIMIT = "ONEDNN_MAX_CPU_ISA"
WITHOUT_TILES = "AVX512_CORE_FP16"
TILE_LEAF = 29
FEW_ROWS, ROWS_AT_ONCE = 12, 4
"""Below so many rows MKL may round those that do not fill a group of four another way."""


class Product(ABC):
    """A packed matrix to multiply by."""

    @abstractmethod
    def __call__(self, x: Tensor) -> Tensor:
        """(n, K) -> (n, N), both float32."""

    def add_to(self, sums: Tensor, x: Tensor) -> None:
        """Add the product with x (n, K) to sums (n, N)."""
        sums.add_(self(x))


def make_product(
    weight: Tensor, precision: Precision, *, many_rows: bool = False, rows_alike: bool = False
) -> Product:
    """Pack a weight (N, K).

    MKL's packed form depends on torch's number of threads: pack with one, or rows differ.

    Args:
        weight: to multiply by.
        precision: of the product.
        many_rows: whether it is mostly multiplied by hundreds of rows.
        rows_alike: in float32, whether a row must be the same to the bit whatever rows stand
            beside it, even where MKL would multiply a single row two or three times as fast.
    """
    weight = weight.detach().to("cpu", torch.float32)
    if precision == "int8":
        return Int8Product(weight) if has_int8() else RoundedProduct(weight)
    if precision == "bfloat16":
        if has_bfloat16():
            return Bfloat16Product(weight, many_rows)
        weight = weight.bfloat16().float()
    if many_rows:
        return SharedProduct(weight)
    return MklProduct(weight, rows_alike) if has_mkl() else PlainProduct(weight)


class SharedProduct(Product):
    """The weight itself, without a copy."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight

    def __call__(self, x: Tensor) -> Tensor:
        """(n, K) -> (n, N)."""
        return linear_alike(x, self.weight, None)

    def add_to(self, sums: Tensor, x: Tensor) -> None:
        """Add the product to sums (n, N)."""
        missing = max(0, ROWS_ALIKE - len(x))
        if missing == 0:
            sums.addmm_(x, self.weight.t())
        else:  # few rows would be rounded another way
            more = F.pad(sums, (0, 0, 0, missing))  # (ROWS_ALIKE, N)
            sums.copy_(more.addmm_(F.pad(x, (0, 0, 0, missing)), self.weight.t())[: len(x)])


class PlainProduct(Product):
    """The weight stored (K, N), as a product of few rows wants it."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight.t().contiguous()  # (K, N)

    def __call__(self, x: Tensor) -> Tensor:
        """(n, K) -> (n, N)."""
        return x @ self.weight

    def add_to(self, sums: Tensor, x: Tensor) -> None:
        """Add the product to sums (n, N)."""
        sums.addmm_(x, self.weight)


class MklProduct(Product):
    """The weight as MKL packs it; see `make_product` for `rows_alike`."""

    def __init__(self, weight: Tensor, rows_alike: bool = True) -> None:
        self.packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, MKL_ROWS)
        self.shape = weight.new_empty(1, 1).expand(weight.shape)  # only its sizes are read
        self.in_groups = rows_alike and rounds_rows_in_groups()

    def __call__(self, x: Tensor) -> Tensor:
        """(n, K) -> (n, N)."""
        n = x.shape[0]
        if self.in_groups and n < FEW_ROWS and n % ROWS_AT_ONCE:
            return self(F.pad(x, (0, 0, 0, -n % ROWS_AT_ONCE)))[:n]
        found: Tensor = torch.ops.mkl._mkl_linear(x, self.packed, self.shape, None, n)
        return found


class OneDnnProduct(Product):
    """The weight as oneDNN packs it, in float32.

    Where MKL has no AVX-512 kernels, on AMD's CPUs, hundreds of rows take a sixth less time.
    """

    def __init__(self, weight: Tensor) -> None:
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight, MKL_ROWS)

    def __call__(self, x: Tensor) -> Tensor:
        """(n, K) -> (n, N)."""
        found: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, None, "none", [], "")
        return found


class Bfloat16Product(Product):
    """The weight in bfloat16, as oneDNN packs it.

    With matrix tiles oneDNN sums in parts that depend on the number of rows, so that a row's result
    would depend on how many stand beside it. Up to 32 rows it does not; where hundreds are usual,
    they are multiplied 128 at a time, padded with zeros.

    Args:
        weight: (N, K).
        many_rows: whether hundreds are usual.
    """

    def __init__(self, weight: Tensor, many_rows: bool = False) -> None:
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16(), ONEDNN_ROWS)
        self.width = len(weight)  # N
        self.least, self.most = 2, MANY_ROWS  # a single row would be summed another way, too
        if uses_tiles():
            self.least, self.most = (TILE_BLOCK, TILE_BLOCK) if many_rows else (2, TILE_ROWS)

    def _multiply(self, x: Tensor) -> Tensor:
        """Of at most `most` rows."""
        missing = max(0, self.least - len(x))
        rows = F.pad(x.bfloat16(), (0, 0, 0, missing)) if missing else x.bfloat16()
        multiply = torch.ops.mkldnn._linear_pointwise
        found: Tensor = multiply(rows, self.packed, None, "none", [], "")
        return found[: len(x)]

    def __call__(self, x: Tensor) -> Tensor:
        """(n, K) -> (n, N)."""
        if len(x) <= self.most:
            return self._multiply(x).float()
        found = x.new_empty(len(x), self.width)
        for some, rows in zip(*_pieces(self.most, found, x), strict=True):
            some.copy_(self._multiply(rows))
        return found

    def add_to(self, sums: Tensor, x: Tensor) -> None:
        """Add the product to sums (n, N)."""
        for some, rows in zip(*_pieces(self.most, sums, x), strict=True):
            some.add_(self._multiply(rows))


class Int8Product(Product):
    """The weight in 8-bit integers from -127 to 127, with a scale per output."""

    def __init__(self, weight: Tensor) -> None:
        whole, self.scale = to_int8(weight)
        self.packed = torch.ops.onednn.qlinear_prepack(whole, None)
        self.zero_points = torch.zeros(len(weight), dtype=torch.int32)

    def _multiply(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The product of x divided by its rows' scales, (n, N), and those scales, (n, 1)."""
        scale = row_scales(x)
        around_128 = torch.div(x, scale).add_(128.5).to(torch.uint8)  # + 0.5, cut off: rounded
        found: Tensor = torch.ops.onednn.qlinear_pointwise(
            around_128, 1.0, 128, self.packed, self.scale, self.zero_points,
            None, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return found, scale

    def __call__(self, x: Tensor) -> Tensor:
        """(n, K) -> (n, N)."""
        found, scale = self._multiply(x)
        return found.mul_(scale)

    def add_to(self, sums: Tensor, x: Tensor) -> None:
        """Add the product to sums (n, N)."""
        sums.addcmul_(*self._multiply(x))


class RoundedProduct(Product):
    """The same numbers in float32: slow, for a torch without 8-bit products, and for tests."""

    def __init__(self, weight: Tensor) -> None:
        self.whole, self.scale = to_int8(weight)

    def __call__(self, x: Tensor) -> Tensor:
        """(n, K) -> (n, N)."""
        scale = row_scales(x)
        rounded = (x / scale + 128.5).floor() - 128  # (n, K)
        return F.linear(rounded, self.whole.float()) * self.scale * scale


def to_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """(N, K) -> int8 (N, K) and scales (N,): the largest value of a row becomes 127."""
    scale = weight.abs().amax(1).clamp(min=1e-12) / 127  # (N,)
    return (weight / scale.unsqueeze(1)).round().to(torch.int8), scale


def row_scales(x: Tensor) -> Tensor:
    """(n, K) -> (n, 1): what makes the largest value of a row 127."""
    return x.abs().amax(1, keepdim=True).mul_(1 / 127).clamp_(min=1e-12)


def _pieces(most: int, *matrices: Tensor) -> list[tuple[Tensor, ...]]:
    """Rows of each matrix, at most that many at a time."""
    return [torch.split(matrix, most) for matrix in matrices]


# ── what this CPU can do ──────────────────────────────────────────────────────────────────────────


def has_op(library: str, name: str) -> bool:
    """Whether torch was built with an operator."""
    return hasattr(getattr(torch.ops, library), name)


def prefers_onednn() -> bool:
    """Whether oneDNN multiplies many rows of float32 faster than MKL."""
    return has_mkl() and has_op("mkldnn", "_linear_pointwise") and rounds_rows_in_groups()


def has_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 itself."""
    check = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(check and check()) and has_op("mkldnn", "_linear_pointwise")


def has_mkl() -> bool:
    """Whether torch has MKL's packed products."""
    return torch._C.has_mkl and has_op("mkl", "_mkl_linear")


def has_int8() -> bool:
    """Whether torch has 8-bit products with 32-bit sums: without VNNI, 16-bit sums saturate."""
    return has_op("onednn", "qlinear_pointwise") and torch.cpu._is_vnni_supported()


def avoid_hidden_tiles() -> None:
    """Tell oneDNN not to use tiles where they cannot be configured, unless the user has set it."""
    try:
        with CPUINFO.open(encoding="utf-8", errors="replace") as file:
            text = file.read(FIRST_CORE)
    except OSError:
        return
    if hides_tiles(text):
        os.environ.setdefault(ONEDNN_LIMIT, WITHOUT_TILES)


def uses_tiles() -> bool:
    """Whether oneDNN multiplies with tiles: the CPU has them and oneDNN was not told otherwise."""
    limit = (os.environ.get(ONEDNN_LIMIT) or "ALL").upper()
    return torch.cpu._is_amx_tile_supported() and ("AMX" in limit or limit in ("ALL", "DEFAULT"))


def hides_tiles(cpuinfo: str) -> bool:
    """Whether a core has tiles but not the leaf of CPUID that describes them."""
    facts = {}
    for line in cpuinfo.split("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        facts[name.strip()] = value.strip()
    has_tiles = "amx_tile" in facts.get("flags", "").split()
    level = facts.get("cpuid level", "")
    return has_tiles and level.isdecimal() and int(level) < TILE_LEAF


@cache
def rounds_rows_in_groups() -> bool:
    """Whether MKL rounds a row alone another way than among others; found by trying.

    So it is on CPUs for which MKL has no AVX-512 kernels, AMD's among them.
    """
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(64, 64, generator=generator)
    x = torch.randn(ROWS_AT_ONCE, 64, generator=generator)
    packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, ROWS_AT_ONCE)
    rows = [torch.ops.mkl._mkl_linear(each, packed, weight, None, len(each)) for each in (x, x[:1])]
    return not torch.equal(rows[0][:1], rows[1])
