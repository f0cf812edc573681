"""Temperatures that make scores true, and how far scores are from that."""

import numpy as np
import pytest

from relmo.tasks.calibration import best_temperature, calibration_error, surprise


def overconfident(factor, number=4000):
    """Answers whose log-odds are `factor` times too large, at any temperature."""
    rng = np.random.default_rng(0)
    odds = rng.normal(1.0, 1.5, number)
    is_right = rng.random(number) < 1 / (1 + np.exp(-odds))

    def judged_at(temperature):
        scores = 1 / (1 + np.exp(-factor * odds / temperature))
        return list(zip(scores.tolist(), is_right.tolist(), strict=True))

    return judged_at


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_the_temperature_undoes_what_was_too_sure(factor):
    judged_at = overconfident(factor)
    found = best_temperature(judged_at)
    assert found == pytest.approx(factor, rel=0.1)
    assert calibration_error(judged_at(found)) < 0.03
    if factor != 1:
        assert calibration_error(judged_at(1.0)) > 0.05


def test_the_error_is_the_gap_between_scores_and_what_is_right():
    assert calibration_error([(0.8, True)] * 8 + [(0.8, False)] * 2) == pytest.approx(0)
    assert calibration_error([(0.8, False)] * 10) == pytest.approx(0.8)
    assert calibration_error([(1.0, True), (0.0, False)]) == 0
    assert calibration_error([]) == 0


def test_one_wrong_answer_that_was_certain_costs_a_bounded_amount():
    assert surprise([(1.0, False)]) < 10
    assert surprise([]) == 0
