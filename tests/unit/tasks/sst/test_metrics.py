"""Scores of labels against cases worked out by hand."""

import pytest

from relmo.errors import ConfigError, TextError
from relmo.tasks.sst.metrics import accuracy, binary_accuracy, macro_f1


def test_accuracy_is_the_share_of_right_labels():
    assert accuracy(["a", "b", "a", "c"], ["a", "b", "b", "a"]) == 0.5


def test_macro_f1_gives_each_label_the_same_weight():
    # a: 1 right of 2 predicted and 2 wanted, b: 1 of 2 and 1, c: never found
    assert macro_f1(["a", "b", "a", "c"], ["a", "b", "b", "a"]) == pytest.approx(
        (1 / 2 + 2 / 3 + 0) / 3
    )


def test_macro_f1_counts_a_label_that_is_only_predicted():
    assert macro_f1(["a", "a"], ["a", "b"]) == pytest.approx((2 / 3 + 0) / 2)
    assert macro_f1([], []) == 0.0


def test_binary_accuracy_looks_at_the_side_and_leaves_neutral_sentences_out():
    assert binary_accuracy(list("01342"), list("10430")) == 1.0
    assert binary_accuracy(list("0133"), list("4123")) == 0.5  # neutral for 3 is wrong
    assert binary_accuracy(["2"], ["2"]) == 0.0


def test_binary_accuracy_is_for_labels_of_trees():
    with pytest.raises(ConfigError, match="label 'positive' has no side"):
        binary_accuracy(["4"], ["positive"])


@pytest.mark.parametrize("metric", [accuracy, macro_f1, binary_accuracy])
def test_each_text_needs_a_prediction(metric):
    with pytest.raises(TextError, match="1 predicted labels, but 2 wanted"):
        metric(["1", "0"], ["1"])
