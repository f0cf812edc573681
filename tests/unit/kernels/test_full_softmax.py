"""The full softmax in blocks, against the same in one piece and in float64."""

import numpy as np
import pytest
import torch

from relmo.kernels import full_softmax
from relmo.kernels.cpu_products import has_op
from relmo.kernels.full_softmax import FullSoftmax

V, P, N = 700, 16, 37


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Several blocks of words and of rows, the last of each not full."""
    monkeypatch.setattr(full_softmax, "ROWS", {"cpu": 16, "cuda": 16})
    monkeypatch.setattr(full_softmax, "WORDS", {"cpu": 64, "cuda": 64})


def inputs(scale=2.0, device="cpu"):
    generator = torch.Generator().manual_seed(0)
    shapes = ((V, P), (V,), (N, P), (N, P))
    found = [torch.randn(shape, generator=generator) * scale for shape in shapes]
    return [x.to(device) for x in (*found, torch.arange(N) * 19 % V)]


def by_hand(weight, bias, forward, backward, targets):
    weight, bias = weight.double(), bias.double()
    ahead, behind = (
        torch.log_softmax(h.double() @ weight.T + bias, 1) for h in (forward, backward)
    )
    both = torch.log_softmax(ahead + behind, 1)
    own = [-each.gather(1, targets.unsqueeze(1)).squeeze(1) for each in (ahead, behind, both)]
    return [*own, -(ahead.exp() * ahead).sum(1)]


def test_blocks_sum_up_to_the_whole():
    weight, bias, forward, backward, targets = inputs()
    found = FullSoftmax(weight, bias).readings(forward, backward, targets)
    for name, value, wanted in zip(
        found._fields, found, by_hand(weight, bias, forward, backward, targets), strict=True
    ):
        np.testing.assert_allclose(value, wanted, atol=5e-5, err_msg=name)
    losses = FullSoftmax(weight, bias).losses(forward, targets)
    np.testing.assert_allclose(losses, found.forward, atol=1e-5)


@pytest.mark.parametrize("onednn", [True, False])
def test_either_library_multiplies(onednn, monkeypatch):
    if onednn and not has_op("mkldnn", "_linear_pointwise"):
        pytest.skip("torch was built without oneDNN")
    monkeypatch.setattr(full_softmax, "prefers_onednn", lambda: onednn)
    weight, bias, forward, _, targets = inputs()
    wanted, *_ = by_hand(weight, bias, forward, forward, targets)
    found = FullSoftmax(weight, bias).losses(forward, targets)
    np.testing.assert_allclose(found, wanted, atol=5e-5)


@pytest.mark.parametrize("scale", [1e-4, 30.0])
def test_scores_of_any_size_stay_in_range(scale):
    weight, bias, forward, backward, targets = inputs(scale)
    found = FullSoftmax(weight, bias).readings(forward, backward, targets)
    for value, wanted in zip(found, by_hand(weight, bias, forward, backward, targets), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("precision", "tolerance"), [("bfloat16", 0.4), ("int8", 0.4)])
def test_probabilities_sum_to_1_in_every_precision(precision, tolerance):
    weight, bias, forward, backward, _ = inputs(1.0)
    softmax, targets = FullSoftmax(weight, bias, precision), torch.arange(V)
    ahead, behind = forward[:1].expand(V, P), backward[:1].expand(V, P)
    found = softmax.readings(ahead, behind, targets)
    for losses in found[:3]:
        assert (-losses.double()).exp().sum().item() == pytest.approx(1, abs=1e-5)
    for value, wanted in zip(found, by_hand(weight, bias, ahead, behind, targets), strict=True):
        np.testing.assert_allclose(value, wanted, atol=tolerance)


def test_no_targets_have_no_losses():
    weight, bias, forward, backward, targets = inputs()
    softmax = FullSoftmax(weight, bias)
    assert softmax.losses(forward[:0], targets[:0]).shape == (0,)
    assert {each.shape for each in softmax.readings(forward[:0], backward[:0], targets[:0])} == {
        (0,)
    }


@pytest.mark.gpu
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 5e-5), ("bfloat16", 0.05)])
def test_a_gpu_finds_the_same(precision, tolerance):
    given = inputs(1.0, "cuda")
    found = FullSoftmax(*given[:2], precision).readings(*given[2:])
    for value, wanted in zip(found, by_hand(*given), strict=True):
        np.testing.assert_allclose(value.cpu(), wanted.cpu(), atol=tolerance)


def test_the_best_words_are_those_of_the_whole():
    weight, bias, forward, backward, _ = inputs()
    prior = torch.linspace(-1, 1, V)
    prior[5] = float("inf")
    ahead, behind = (
        torch.log_softmax(h.double() @ weight.double().T + bias.double(), 1)
        for h in (forward, backward)
    )
    wanted = (ahead + behind - prior).topk(70)  # more than a block has
    scores, words = FullSoftmax(weight, bias).best(forward, backward, prior, 70)
    np.testing.assert_allclose(scores, wanted.values, atol=2e-4)
    assert (words[:, :5] == wanted.indices[:, :5]).all()
    assert not (words == 5).any()
