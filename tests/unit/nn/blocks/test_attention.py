"""Attention and pooling against naive loops; padding, and sentences without tokens."""

import math
from itertools import product

import pytest
import torch

from relmo.nn.blocks.attention import (
    AttentivePool,
    Trilinear,
    align,
    dot_scores,
    masked_softmax,
    max_pool,
    mean_pool,
    min_pool,
)

LENGTHS = [4, 1, 0, 3]
MASK = torch.arange(5) < torch.tensor(LENGTHS)[:, None]  # (4, 5)


@pytest.fixture
def values():
    """(4, 5, 3); what stands past a sentence's end is large, and must not be seen."""
    found = torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(1))
    return torch.where(MASK[..., None], found, 1e4 * found.sign())


def by_hand(values, how):
    """(4, 3): `how` of each feature's list, 0 without tokens."""
    rows = [row[:length].T.tolist() for row, length in zip(values, LENGTHS, strict=True)]
    return torch.tensor([[how(feature) if feature else 0.0 for feature in row] for row in rows])


def shares_by_hand(scores):
    exps = [math.exp(score) for score in scores]
    return [each / sum(exps) for each in exps]


# ── shares ──────────────────────────────────────────────────────────────────────────────────


def test_shares_are_a_softmax_of_what_is_there():
    scores = torch.randn(4, 5, generator=torch.Generator().manual_seed(2))
    found = masked_softmax(scores, MASK)
    for row, wanted, length in zip(found, scores.tolist(), LENGTHS, strict=True):
        assert row[:length].tolist() == pytest.approx(shares_by_hand(wanted[:length]), abs=1e-6)
        assert row[length:].tolist() == [0.0] * (5 - length)


def test_shares_run_along_any_dimension_and_masks_broadcast():
    scores = torch.randn(2, 4, 5, 6)
    mask = MASK[:, :, None]  # (4, 5, 1)
    found = masked_softmax(scores, mask, dim=2)
    wanted = masked_softmax(scores.mT, mask.mT).mT
    torch.testing.assert_close(found, wanted)
    there = torch.tensor(LENGTHS) > 0
    torch.testing.assert_close(found.sum(2), there[:, None].expand(2, 4, 6).float())


def test_large_scores_hidden_numbers_and_bfloat16_do_no_harm():
    scores = torch.tensor([[500.0, 300.0, math.nan], [-3e4, -3e4, math.inf]], dtype=torch.bfloat16)
    found = masked_softmax(scores, torch.tensor([True, True, False]))
    assert found.dtype == torch.float32
    assert found.tolist() == [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]


def test_gradients_are_numbers_where_nothing_stands():
    scores = torch.randn(4, 5, requires_grad=True)
    masked_softmax(scores, MASK).square().sum().backward()
    assert scores.grad.isfinite().all()
    assert not scores.grad[~MASK].any()


# ── alignment ───────────────────────────────────────────────────────────────────────────────


def test_scores_are_products_of_every_token_with_every_other(values):
    one = torch.randn(4, 2, 3)
    found = dot_scores(one, values)  # (4, 2, 5)
    for b, t, s in product(range(4), range(2), range(5)):
        wanted = sum(one[b, t, f].item() * values[b, s, f].item() for f in range(3))
        assert found[b, t, s].item() == pytest.approx(wanted, rel=1e-4, abs=1e-5)


def test_scores_are_exact_under_autocast():
    one = torch.full((1, 1, 300), 1.0)
    one[..., -1] = 1.5
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert dot_scores(one, one).item() == 301.25


def test_alignment_is_a_weighted_mean_of_the_other_sentence(values):
    scores = torch.randn(4, 2, 5)
    found = align(scores, values, MASK)  # (4, 2, 3)
    for b, length in enumerate(LENGTHS):
        for t in range(2):
            shares = shares_by_hand(scores[b, t, :length].tolist()) if length else []
            pairs = list(zip(shares, values[b].tolist(), strict=False))
            wanted = [sum(share * value[f] for share, value in pairs) for f in range(3)]
            assert found[b, t].tolist() == pytest.approx(wanted, abs=1e-5)


# ── trilinear similarity ────────────────────────────────────────────────────────────────────


def test_each_pair_is_scored_by_the_three_terms():
    torch.manual_seed(0)
    similarity, first, second = Trilinear(5), torch.randn(2, 4, 5), torch.randn(2, 3, 5)
    a, b = first[:, :, None].expand(2, 4, 3, 5), second[:, None].expand(2, 4, 3, 5)
    one, two, three = (
        similarity.of_first.weight[0],
        similarity.of_second.weight[0],
        similarity.of_both,
    )
    weight = torch.cat([one, two, three])
    wanted = (torch.cat([a, b, a * b], -1) * weight).sum(-1)
    torch.testing.assert_close(similarity(first, second), wanted, atol=1e-6, rtol=0)


def test_a_sentence_without_tokens_has_no_pair():
    assert Trilinear(5)(torch.randn(2, 4, 5), torch.randn(2, 0, 5)).shape == (2, 4, 0)


# ── pooling ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pool", "how"),
    [(max_pool, max), (min_pool, min), (mean_pool, lambda each: sum(each) / len(each))],
)
def test_pools_do_what_they_are_called(values, pool, how):
    torch.testing.assert_close(pool(values, MASK), by_hand(values, how))


@pytest.mark.parametrize("pool", [max_pool, min_pool, mean_pool, AttentivePool(3)])
def test_padding_does_not_change_a_pool(values, pool):
    assert torch.equal(pool(values[:, :4], MASK[:, :4]), pool(values, MASK))


def test_the_attentive_pool_weighs_tokens_by_a_learned_score(values):
    pool = AttentivePool(3)
    weight, bias = pool.to_score.weight[0].tolist(), pool.to_score.bias.item()
    found = pool(values, MASK)
    for b, length in enumerate(LENGTHS):
        tokens = values[b, :length].tolist()
        scores = [sum(w * x for w, x in zip(weight, t, strict=True)) + bias for t in tokens]
        shares = shares_by_hand(scores) if length else []
        wanted = [sum(s * t[f] for s, t in zip(shares, tokens, strict=True)) for f in range(3)]
        assert found[b].tolist() == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("pool", [max_pool, min_pool, mean_pool, AttentivePool(3)])
def test_pools_of_bfloat16_are_float32_and_their_gradients_numbers(values, pool):
    narrow = values.bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = pool(narrow, MASK)
    found.square().sum().backward()
    assert found.dtype == torch.float32
    assert narrow.grad.isfinite().all()
    assert not narrow.grad[~MASK].any()
