"""The packed LSTM gives the reference's numbers."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relmo.kernels import cpu_lstm
from relmo.kernels.cpu_lstm import PackedLstm
from relmo.kernels.cpu_products import make_product
from relmo.kernels.packing import pack
from relmo.kernels.reference import Clips, LstmWeights, projected_lstm

P, H = 5, 11
ATOL = 1e-5
NO_CLIPS, SMALL_CLIPS = (None, None), (0.4, 0.05)
MIXED = [4, 0, 7, 1, 7, 3, 12]
all_lengths = st.lists(st.integers(0, 9), max_size=8)


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def weights_of(projected: bool, seed: int = 0) -> LstmWeights:
    generator = torch.Generator().manual_seed(seed)
    cells = H if projected else P

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator) * shape[-1] ** -0.5

    projection = normal(P, cells) if projected else None
    bias = torch.randn(4 * cells, generator=generator)
    return LstmWeights(normal(4 * cells, P), normal(4 * cells, P), bias, projection)


def packed(
    weights: LstmWeights, clips: tuple[float | None, float | None], precision: str
) -> PackedLstm:
    projection = weights.projection
    return PackedLstm(
        input_product=make_product(weights.input, precision, many_rows=True),
        recurrent=make_product(weights.recurrent, precision),
        bias=weights.bias,
        projection=None if projection is None else make_product(projection, precision),
        clips=Clips(*clips),
    )


def inputs_of(
    lengths: list[int], T: int, cells: int, seed: int = 1
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Padding that is no number: whoever looks at it is found out."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(len(lengths), T, P, generator=generator)
    for row, length in zip(x, lengths, strict=True):
        row[length:] = float("nan")
    h = torch.randn(len(lengths), P, generator=generator)
    return x, h, torch.randn(len(lengths), cells, generator=generator)


def read_packed(
    lstm: PackedLstm, x: torch.Tensor, lengths: list[int], h: torch.Tensor, c: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As the reference takes and gives it: padded, in the caller's order."""
    B, T, _ = x.shape
    plan = pack(torch.tensor(lengths, dtype=torch.long))
    ahead, _ = plan.places(T)
    y, h, c = lstm.read(x.reshape(B * T, P)[ahead], plan.alive, h[plan.order], c[plan.order])
    padded = torch.zeros(B * T, P)
    padded[ahead] = y
    back = torch.argsort(plan.order)
    return padded.view(B, T, P), h[back], c[back]


def both(
    lengths: list[int], projected: bool, clips: tuple[float | None, float | None]
) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    weights = weights_of(projected)
    x, h, c = inputs_of(lengths, max(lengths, default=0), H if projected else P)
    found = read_packed(packed(weights, clips, "float32"), x, lengths, h, c)
    wanted = projected_lstm(
        x, torch.tensor(lengths, dtype=torch.long), h, c, weights, Clips(*clips)
    )
    return found, wanted


@pytest.mark.parametrize("clips", [NO_CLIPS, SMALL_CLIPS, (0.4, None), (None, 0.05)])
@pytest.mark.parametrize("projected", [True, False])
@settings(max_examples=25, deadline=None)
@given(all_lengths.filter(len))
def test_it_reads_what_the_reference_reads(projected, clips, lengths):
    found, wanted = both(lengths, projected, clips)
    for one, other in zip(found, wanted, strict=True):  # outputs, h, c
        torch.testing.assert_close(one, other, rtol=0, atol=ATOL)


def test_clips_fire():
    (outputs, _, c), _ = both(MIXED, True, SMALL_CLIPS)
    (free_outputs, _, free_c), _ = both(MIXED, True, NO_CLIPS)
    read = torch.tensor(MIXED) > 0
    assert c[read].abs().max().item() == pytest.approx(0.4)
    assert outputs.abs().max().item() == pytest.approx(0.05)
    assert free_c.abs().max() > 0.8
    assert free_outputs.abs().max() > 0.1


def test_an_output_without_projection_is_not_clipped():
    (outputs, _, _), _ = both(MIXED, False, SMALL_CLIPS)
    assert outputs.abs().max() > 0.05


def test_a_sentence_without_tokens_keeps_its_state():
    x, h, c = inputs_of(MIXED, 12, H)
    _, h_after, c_after = read_packed(
        packed(weights_of(True), SMALL_CLIPS, "float32"), x, MIXED, h, c
    )
    assert torch.equal(h_after[1], h[1])
    assert torch.equal(c_after[1], c[1])


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 5, 7, 34, 1000])
def test_the_size_of_a_block_does_not_matter(monkeypatch, rows, projected):
    wanted, _ = both(MIXED, projected, SMALL_CLIPS)
    monkeypatch.setattr(cpu_lstm, "BLOCK_ROWS", rows)
    found, _ = both(MIXED, projected, SMALL_CLIPS)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_what_is_handed_in_is_left_as_it_was():
    x, h, c = inputs_of([3, 3], 3, H)
    before = x.clone(), h.clone(), c.clone()
    lstm = packed(weights_of(True), SMALL_CLIPS, "float32")
    for _ in range(2):
        y, _, _ = lstm.read(x.reshape(6, P), [2, 2, 2], h, c)
        y.fill_(9.0)
    assert all(torch.equal(a, b) for a, b in zip((x, h, c), before, strict=True))


@pytest.mark.parametrize(("precision", "atol"), [("bfloat16", 5e-2), ("int8", 5e-2)])
def test_coarser_products_stay_near(precision, atol):
    weights = weights_of(True)
    x, h, c = inputs_of(MIXED, 12, H)
    found = read_packed(packed(weights, (3.0, 3.0), precision), x, MIXED, h, c)
    wanted = projected_lstm(x, torch.tensor(MIXED), h, c, weights, Clips(3.0, 3.0))
    for one, other in zip(found, wanted, strict=True):
        error = (one - other).square().mean().sqrt() / other.square().mean().sqrt()
        assert 0 < error < atol
