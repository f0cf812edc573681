"""Packed products give what F.linear gives, and a row's result is its own."""

import os
from functools import partial

import pytest
import torch

from relmo.kernels import cpu_products
from relmo.kernels.cpu_products import (
    Bfloat16Product,
    Int8Product,
    MklProduct,
    PlainProduct,
    RoundedProduct,
    SharedProduct,
    has_int8,
    has_mkl,
    make_product,
    to_int8,
)

ODD, GATES, PROJECTION = (13, 7), (4096, 128), (128, 1024)
"""(N, K); the latter two are those of the small model."""
SIZES = [ODD, GATES, PROJECTION]
COUNTS = [1, 3, 64, 500]

needs_mkl = pytest.mark.skipif(not has_mkl(), reason="a torch without MKL")
needs_bfloat16 = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="oneDNN has no bfloat16 on this CPU"
)
needs_int8 = pytest.mark.skipif(not has_int8(), reason="a CPU without 8-bit products")
needs_avx512 = pytest.mark.skipif(
    not torch.cpu._is_avx512_supported(), reason="MKL's rows depend on their neighbours there"
)
FLOAT32 = [PlainProduct, SharedProduct, pytest.param(MklProduct, marks=needs_mkl)]
BFLOAT16 = [
    pytest.param(Bfloat16Product, marks=needs_bfloat16),
    pytest.param(partial(Bfloat16Product, many_rows=True), marks=needs_bfloat16, id="many rows"),
]
INT8 = [RoundedProduct, pytest.param(Int8Product, marks=needs_int8)]
ALL = [*FLOAT32, *BFLOAT16, *INT8]


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def weight_of(size: tuple[int, int]) -> torch.Tensor:
    return normal(*size, seed=1) * size[1] ** -0.5


def exactly(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x.double() @ weight.double().t()


def row_error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest error of a row, as a part of the row's norm."""
    return float(((found - wanted).norm(dim=1) / wanted.norm(dim=1)).max())


# ── the numbers ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", FLOAT32)
def test_float32_is_exact_to_its_rounding(kind, size, count):
    weight, x = weight_of(size), normal(count, size[1])
    found = kind(weight)(x)
    sizes = x.abs() @ weight.abs().t()  # what a sum's rounding is measured by
    assert found.dtype == torch.float32
    assert ((found - exactly(x, weight)).abs() <= 1e-5 * sizes).all()


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", BFLOAT16)
def test_bfloat16_is_within_two_percent_of_each_row(kind, size, count):
    weight, x = weight_of(size), normal(count, size[1])
    found = kind(weight)(x)
    assert found.dtype == torch.float32
    assert row_error(found, exactly(x, weight)) <= 2e-2


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("size", [GATES, PROJECTION])
@pytest.mark.parametrize("kind", INT8)
def test_int8_is_within_two_percent_of_each_row(kind, size, count):
    weight, x = weight_of(size), normal(count, size[1])
    found = kind(weight)(x)
    assert found.dtype == torch.float32
    assert row_error(found, exactly(x, weight)) <= 2e-2


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", INT8)
def test_int8_rounds_each_factor_by_half_a_step_at_most(kind, size, count):
    weight, x = weight_of(size), normal(count, size[1])
    step_x = x.abs().amax(1, keepdim=True) / 127  # (n, 1)
    step_w = weight.abs().amax(1) / 127  # (N,)
    bound = step_x / 2 * weight.abs().sum(1) + step_w / 2 * x.abs().sum(1, keepdim=True)
    bound += step_x * step_w * size[1] / 4
    error = (kind(weight)(x) - exactly(x, weight)).abs()
    assert (error <= 1.001 * bound).all()


@needs_int8
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("size", SIZES)
def test_int8_is_what_rounding_in_float32_gives(size, count):
    weight, x = weight_of(size), normal(count, size[1])
    found, wanted = Int8Product(weight)(x), RoundedProduct(weight)(x)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_largest_sums_of_int8_do_not_overflow(sign):
    """Every product of a sum is the largest there is: 16 bits could not hold two of them."""
    found = make_product(torch.full((16, 1024), sign), "int8")(torch.ones(5, 1024))
    torch.testing.assert_close(found, torch.full((5, 16), 1024 * sign), rtol=1e-5, atol=0)


def test_the_largest_weight_of_an_output_becomes_127():
    whole, scale = to_int8(torch.tensor([[0.5, -1.0, 0.0], [0.0, 0.0, 0.0]]))
    assert whole.tolist() == [[64, -127, 0], [0, 0, 0]]
    assert scale[0].item() == pytest.approx(1 / 127)


# ── adding ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ALL)
def test_add_to_adds_the_product_to_its_rows_alone(kind, size, count):
    product, x = kind(weight_of(size)), normal(count, size[1])
    larger = normal(count + 10, size[0], seed=2)
    before, given = larger.clone(), x.clone()
    product.add_to(larger[4 : 4 + count], x)
    wanted = before[4 : 4 + count] + product(x)
    torch.testing.assert_close(larger[4 : 4 + count], wanted, rtol=1e-5, atol=1e-5)
    assert torch.equal(larger[:4], before[:4])
    assert torch.equal(larger[4 + count :], before[4 + count :])
    assert torch.equal(x, given)


# ── a row is its own ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [GATES, PROJECTION])
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(SharedProduct, marks=needs_avx512),
        pytest.param(MklProduct, marks=needs_mkl),
        *BFLOAT16,
        *INT8,
    ],
)
def test_the_rows_beside_a_row_change_no_bit_of_it(kind, size):
    product, x = kind(weight_of(size)), normal(500, size[1])
    together = product(x)
    singles = [(start, 1) for start in range(40)]
    for start, count in (*singles, (0, 2), (8, 3), (41, 64), (2, 65), (99, 300)):
        part = x[start : start + count]
        assert torch.equal(product(part), together[start : start + count])
    assert torch.equal(product(x.flip(0)), together.flip(0))


@needs_bfloat16
@pytest.mark.parametrize("many_rows", [False, True])
def test_with_tiles_rows_are_multiplied_in_numbers_that_are_summed_alike(monkeypatch, many_rows):
    weight, x = weight_of(GATES), normal(300, GATES[1])
    plain = Bfloat16Product(weight)(x)
    monkeypatch.setattr(cpu_products, "uses_tiles", lambda: True)
    product, counts = Bfloat16Product(weight, many_rows), []
    multiply = torch.ops.mkldnn._linear_pointwise

    def counted(rows, *rest):
        counts.append(len(rows))
        return multiply(rows, *rest)

    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", counted)
    found, sums = product(x), torch.zeros_like(plain)
    product.add_to(sums, x)
    product(x[:1])
    assert set(counts) == ({128} if many_rows else {32, 12, 2})
    assert torch.equal(sums, found)
    assert row_error(found, plain) <= 1e-2


@pytest.mark.parametrize("kind", INT8)
def test_a_huge_row_does_not_coarsen_the_row_beside_it(kind):
    product, x = kind(weight_of(GATES)), normal(2, 128)
    alone = product(x[:1])
    x[1] *= 1e20
    assert torch.equal(product(x)[:1], alone)


# ── odd rows ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ALL)
def test_no_rows_give_no_rows(kind, size):
    N, K = size
    product = kind(weight_of(size))
    assert product(torch.empty(0, K)).shape == (0, N)
    product.add_to(torch.empty(0, N), torch.empty(0, K))


@pytest.mark.parametrize("kind", ALL)
def test_a_row_of_zeros_gives_zeros(kind):
    x = normal(3, 128)
    x[1] = 0
    found = kind(weight_of(GATES))(x)
    assert not found[1].any()
    assert found[[0, 2]].isfinite().all()


@pytest.mark.parametrize("kind", ALL)
def test_an_output_whose_weights_are_zero_is_zero(kind):
    weight = weight_of(ODD)
    weight[5] = 0
    found = kind(weight)(normal(3, 7))
    assert not found[:, 5].any()
    assert found.isfinite().all()


@pytest.mark.parametrize("size_of_values", [1e-8, 1e-3, 1e3, 1e15, 1e30])
@pytest.mark.parametrize("kind", ALL)
def test_large_and_small_values_keep_their_precision(kind, size_of_values):
    weight, x = weight_of(GATES), normal(3, 128) * size_of_values
    assert row_error(kind(weight)(x), exactly(x, weight)) <= 2e-2


@pytest.mark.parametrize("kind", INT8)
def test_values_too_small_for_a_scale_vanish_without_nan(kind):
    found = kind(weight_of(GATES))(normal(3, 128) * 1e-30)
    assert found.isfinite().all()
    assert found.abs().max() < 1e-10


@pytest.mark.parametrize("size_of_weights", [1e-8, 1e8])
@pytest.mark.parametrize("kind", INT8)
def test_each_output_has_its_own_scale(kind, size_of_weights):
    weight, x = weight_of(GATES), normal(3, 128)
    weight[0] *= size_of_weights
    wanted = exactly(x, weight)
    found = kind(weight)(x)
    assert row_error(found[:, 1:], wanted[:, 1:]) <= 2e-2
    assert row_error(found[:, :1].t(), wanted[:, :1].t()) <= 5e-2


# ── which product stands in ─────────────────────────────────────────────────────────────────


def test_without_mkl_the_plain_product_stands_in(monkeypatch):
    monkeypatch.setattr(cpu_products, "has_mkl", lambda: False)
    product = make_product(weight_of(ODD), "float32")
    assert isinstance(product, PlainProduct)


def test_many_rows_need_no_copy_of_the_weight():
    weight = weight_of(ODD)
    product = make_product(weight, "float32", many_rows=True)
    assert isinstance(product, SharedProduct)
    assert product.weight.data_ptr() == weight.data_ptr()


def test_without_8_bit_products_rounded_ones_stand_in(monkeypatch):
    monkeypatch.setattr(cpu_products, "has_int8", lambda: False)
    assert isinstance(make_product(weight_of(ODD), "int8"), RoundedProduct)


def test_a_cpu_that_would_overflow_has_no_8_bit_products(monkeypatch):
    """Without VNNI oneDNN adds two products in 16 bits: sums would be cut off, silently."""
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    assert not has_int8()


@pytest.mark.parametrize("mkl", [True, False])
def test_without_bfloat16_its_rounded_weights_are_multiplied_in_float32(monkeypatch, mkl):
    monkeypatch.setattr(cpu_products, "has_bfloat16", lambda: False)
    monkeypatch.setattr(cpu_products, "has_mkl", lambda: mkl and torch._C.has_mkl)
    weight, x = weight_of(GATES), normal(3, 128)
    found = make_product(weight, "bfloat16")(x)
    wanted = exactly(x, weight.bfloat16())
    torch.testing.assert_close(found, wanted.float(), rtol=1e-5, atol=1e-5)
    assert row_error(found, exactly(x, weight)) > 1e-4


@needs_bfloat16
def test_with_bfloat16_it_is_packed(monkeypatch):
    monkeypatch.setattr(cpu_products, "has_bfloat16", lambda: True)
    assert isinstance(make_product(weight_of(ODD), "bfloat16"), Bfloat16Product)


@pytest.mark.parametrize("supported", [True, False, None])
def test_the_cpu_says_whether_it_has_bfloat16(monkeypatch, supported):
    if supported is None:
        monkeypatch.delattr(torch.cpu, "_is_avx512_bf16_supported")
    else:
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: supported)
    assert cpu_products.has_bfloat16() is bool(supported)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_weight_is_left_as_it_was(precision):
    weight = torch.nn.Parameter(weight_of(ODD))
    before = weight.detach().clone()
    with torch.enable_grad():
        found = make_product(weight, precision)(normal(3, 7))
    assert torch.equal(weight, before)
    assert not found.requires_grad


# ── what this CPU can do ──────────────────────────────────────────────────────────────────

CORE = "processor\t: 0\nmodel name\t: A CPU\ncpuid level\t: {}\nflags\t\t: fpu avx512f {}\n\n"


@pytest.mark.parametrize(
    ("level", "flags", "found"),
    [
        (28, "amx_bf16 amx_tile amx_int8", True),
        (29, "amx_bf16 amx_tile amx_int8", False),
        (32, "amx_tile", False),
        (28, "avx512_bf16", False),
        ("?", "amx_tile", False),
    ],
)
def test_tiles_are_hidden_where_the_leaf_that_describes_them_is(level, flags, found):
    later = CORE.format(28, "amx_tile")  # only the first core is asked
    assert cpu_products.hides_tiles(CORE.format(level, flags) + later) is found


def test_no_text_hides_nothing():
    assert not cpu_products.hides_tiles("")


def test_onednn_is_told_and_a_users_word_stands(tmp_path, monkeypatch):
    path = tmp_path / "cpuinfo"
    path.write_text(CORE.format(28, "amx_tile"), encoding="utf-8")
    monkeypatch.setattr(cpu_products, "CPUINFO", path)
    monkeypatch.delenv(cpu_products.ONEDNN_LIMIT, raising=False)
    cpu_products.avoid_hidden_tiles()
    assert os.environ[cpu_products.ONEDNN_LIMIT] == cpu_products.WITHOUT_TILES
    monkeypatch.setenv(cpu_products.ONEDNN_LIMIT, "AVX2")
    cpu_products.avoid_hidden_tiles()
    assert os.environ[cpu_products.ONEDNN_LIMIT] == "AVX2"


def test_a_system_without_that_file_is_left_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(cpu_products, "CPUINFO", tmp_path / "none")
    monkeypatch.delenv(cpu_products.ONEDNN_LIMIT, raising=False)
    cpu_products.avoid_hidden_tiles()
    assert cpu_products.ONEDNN_LIMIT not in os.environ


@pytest.mark.parametrize(
    ("has", "limit", "uses"),
    [
        (True, None, True),
        (True, "AVX512_CORE_AMX", True),
        (True, "default", True),
        (True, cpu_products.WITHOUT_TILES, False),
        (False, None, False),
    ],
)
def test_tiles_are_used_where_they_are_and_nobody_forbids_it(monkeypatch, has, limit, uses):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: has)
    monkeypatch.delenv(cpu_products.ONEDNN_LIMIT, raising=False)
    if limit is not None:
        monkeypatch.setenv(cpu_products.ONEDNN_LIMIT, limit)
    assert cpu_products.uses_tiles() is uses
