"""Accuracy of pairs."""

from relmo.tasks.snli.metrics import accuracy


def test_accuracy_is_the_share_of_right_labels():
    wanted = ["neutral", "entailment", "contradiction", "neutral"]
    assert accuracy(wanted, ["neutral", "neutral", "contradiction", "entailment"]) == 0.5
    assert accuracy(wanted, wanted) == 1.0
