"""Thresholds against cases computed by hand and by trying all."""

import pytest
import torch

from relmo.tasks.multilabel.model import best_thresholds


def column(*values):
    return torch.tensor(values)[:, None]


@pytest.mark.parametrize(
    ("scores", "has_label", "threshold"),
    [
        ([2.0, -1.0, -3.0], [True, True, False], -2.0),  # between what has it and what has not
        ([2.0, 1.0, -3.0], [True, False, False], 1.5),
        ([3.0, 2.0], [True, True], 1.0),  # below all
        ([3.0, 2.0], [False, False], 0.0),  # nothing to go by
        ([1.0, 1.0, 1.0], [True, False, False], 0.0),  # cannot be told apart
        ([4.0, 3.0, 2.0, 1.0], [True, False, False, True], 0.0),  # as good as 3.5, and nearer to 0
    ],
)
def test_a_threshold_has_the_best_f1(scores, has_label, threshold):
    assert best_thresholds(column(*scores), column(*has_label)).tolist() == [threshold]


def test_no_other_threshold_is_better():
    torch.manual_seed(0)
    scores = torch.randn(50, 6).mul(4).round().div(2)  # with ties
    has_label = scores + torch.randn(50, 6) > torch.tensor([-2.0, -1, 0, 1, 2, 3])
    found = best_thresholds(scores, has_label)

    def f1(threshold):
        given = scores >= threshold
        return 2 * (given & has_label).sum(0) / (given.sum(0) + has_label.sum(0))

    best = torch.stack([f1(t) for t in torch.arange(-9, 9, 0.25)]).amax(0)
    torch.testing.assert_close(f1(found), best)
