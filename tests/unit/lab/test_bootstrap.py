"""The paired bootstrap, on sums whose answer is known."""

import numpy as np
import pytest

from relmo.errors import ConfigError
from relmo.lab.bootstrap import compare
from relmo.tasks.coref.metrics import count, mean_f1


def total(sums):
    """The score is the sum itself."""
    return sums[:, 0]


def ratio(sums):
    return sums[:, 0] / sums[:, 1]


def column(*values):
    return np.array(values, dtype=float)[:, None]


def test_a_system_against_itself_is_never_better():
    found = compare(column(1, 2, 3), column(1, 2, 3), total, num_draws=100)
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_a_system_better_on_every_document_is_better_in_every_draw():
    found = compare(column(1, 2, 3), column(2, 4, 4), total, num_draws=999)
    assert (found.first, found.second, found.difference) == (6, 10, 4)
    assert found.p == 1 / 1000
    assert 3 <= found.low <= found.high <= 6
    assert (found.num_documents, found.num_draws) == (3, 999)


def test_p_is_the_share_of_draws_that_turn_the_sign():
    # Of two documents one gains 3, one loses 1: only the draw of the loser twice (1/4) is lost.
    found = compare(column(0, 0), column(3, -1), total)
    assert found.p == pytest.approx(1 / 4, abs=0.02)
    assert (found.difference, found.low, found.high) == (2, -2, 6)


def test_exchanged_systems_have_the_other_sign():
    one, other = column(1, 5, 2, 0), column(2, 4, 4, 1)
    there, back = compare(one, other, total), compare(other, one, total)
    assert there.difference == -back.difference
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.p + back.p >= 1


def test_sums_are_drawn_before_they_are_scored():
    long_and_short = np.array([[90.0, 100.0], [0.0, 1.0]])
    found = compare(long_and_short, long_and_short, ratio, num_draws=10)
    assert found.first == pytest.approx(90 / 101)


def test_the_seed_decides_the_draws():
    one, other = column(1, 5, 2, 0, 3), column(2, 4, 4, 1, 2)
    assert compare(one, other, total, seed=3) == compare(one, other, total, seed=3)
    assert compare(one, other, total, seed=3) != compare(one, other, total, seed=4)


def test_draws_need_not_fill_the_last_portion():
    assert compare(column(0), column(1), total, num_draws=501).p == 1 / 502


def test_coreference_is_compared_by_mean_f1():
    gold = [[[(0, 0), (2, 2)], [(1, 1), (3, 3)]]] * 5
    nothing = np.stack([count(each, []) for each in gold])
    right = np.stack([count(each, each) for each in gold])
    found = compare(nothing, right, mean_f1, num_draws=99)
    assert (found.first, found.second, found.p) == (0, 100, 0.01)


@pytest.mark.parametrize(
    ("first", "second", "num_draws"),
    [(column(1), column(1, 2), 10), (column(), column(), 10), (column(1), column(2), 0)],
)
def test_what_cannot_be_compared_is_said(first, second, num_draws):
    with pytest.raises(ConfigError, match="equal shapes"):
        compare(first, second, total, num_draws)
