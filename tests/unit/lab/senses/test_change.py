"""Measures of change, by hand, and their permutation tests."""

import numpy as np
import pytest

from relmo.lab.senses.change import apd, assignments, jsd, measure, p_value, prt, shares_of
from relmo.runtime.pooling import normalize


def sample(n, center, seed=0):
    rng = np.random.default_rng(seed)
    return normalize((rng.normal(size=(n, 8)) + center).astype(np.float32))


def test_measures_are_these_by_hand():
    vectors = np.array([[1, 0], [0, 1], [1, 0], [1, 0]], np.float32)
    real = assignments(4, 2, 0)
    assert apd(vectors, real)[0] == pytest.approx(0.5)  # cosines 1, 1, 0, 0
    assert prt(vectors, real)[0] == pytest.approx(1 - 0.5**0.5)  # 45 degrees
    # (1/2, 1/2) and (1, 0): their mean has 0.8113 bits, they have 1 and 0
    assert jsd(np.array([0, 1, 0, 0]), real)[0] == pytest.approx(0.8112781 - 0.5)
    assert jsd(np.array([0, 0, 1, 1]), real)[0] == pytest.approx(1)
    assert jsd(np.array([0, 1, 1, 0]), real)[0] == 0
    assert jsd(np.zeros(4, np.int64), real)[0] == 0


def test_each_random_assignment_is_measured_as_a_real_one():
    vectors, labels = sample(12, 0.0), np.arange(12) % 3
    drawn = assignments(12, 5, 20)
    assert (drawn.sum(1) == 5).all()
    for row in drawn:
        order = np.concatenate([np.flatnonzero(row), np.flatnonzero(~row)])
        alone = assignments(12, 5, 0)
        for function, data in ((apd, vectors), (prt, vectors), (jsd, labels)):
            number = int((drawn == row).all(1).argmax())
            assert function(data[order], alone)[0] == pytest.approx(function(data, drawn)[number])


def test_p_counts_the_real_assignment():
    assert p_value(np.array([3.0, 1.0, 2.0, 3.0])) == 0.5
    assert p_value(np.array([3.0, 1.0, 2.0, 2.0])) == 0.25
    assert p_value(np.array([3.0])) == 1.0


def test_a_change_is_significant_and_equal_samples_are_not():
    labels = np.repeat([0, 1], 30)
    changed = measure(np.concatenate([sample(30, 1.0), sample(30, -1.0, 1)]), labels, 30, 199)
    assert [m.p for m in changed] == [1 / 200] * 3
    same = np.concatenate([sample(30, 1.0)] * 2)
    found = measure(same, np.tile([0, 0, 1], 20), 30, 199)
    assert all(m.p > 0.9 for m in found[1:])  # the means and shares are the same
    assert found[1].value == pytest.approx(0, abs=1e-6)


def test_p_values_of_equal_sources_are_spread_evenly():
    p = []
    for seed in range(60):
        vectors = sample(40, 0.3, seed)
        p.append([m.p for m in measure(vectors, (vectors[:, 0] > 0.3).astype(int), 20, 99, seed)])
    below = (np.array(p) <= 0.1).mean(0)
    assert (below <= 0.25).all()  # 0.1 expected, 3.9 standard deviations allowed
    assert (np.array(p)[:, :2].mean(0) > 0.35).all()


def test_shares_of_senses_are_counted_by_period():
    assert shares_of(np.array([0, 0, 1, 0, 1, 1]), 4) == [
        {"before": 0.75, "after": 0.0}, {"before": 0.25, "after": 1.0}
    ]  # fmt: skip
