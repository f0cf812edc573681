"""Accuracy and F1 against cases computed by hand."""

import pytest

from relmo.errors import TextError
from relmo.tasks.metrics import (
    MatchCounts,
    accuracy,
    entity_scores,
    label_set_scores,
    macro_f1,
    token_accuracy,
)


def tags(*sentences: str) -> list[list[str]]:
    return [sentence.split() for sentence in sentences]


def test_an_entity_counts_only_with_both_ends_and_its_label_right():
    wanted = tags("B-x I-x O B-y", "B-x O B-x I-x")
    predicted = tags("B-x I-x O B-x", "B-x I-x B-x I-x")
    found = entity_scores(wanted, predicted)
    assert found.overall == MatchCounts(correct=2, predicted=4, gold=4)
    assert found.by_label == {"x": MatchCounts(2, 4, 3), "y": MatchCounts(0, 0, 1)}
    assert found.by_label["x"].precision == 0.5
    assert found.by_label["x"].recall == pytest.approx(2 / 3)
    assert found.by_label["x"].f1 == pytest.approx(4 / 7)


def test_precision_recall_and_f1_are_fractions():
    counts = MatchCounts(correct=3, predicted=4, gold=6)
    assert (counts.precision, counts.recall, counts.f1) == (0.75, 0.5, pytest.approx(0.6))


def test_nothing_predicted_or_nothing_to_find_scores_zero():
    for counts in (MatchCounts(0, 0, 5), MatchCounts(0, 5, 0), MatchCounts(0, 0, 0)):
        assert (counts.precision, counts.recall, counts.f1) == (0, 0, 0)


def test_two_chunks_read_as_one_are_both_missed():
    found = entity_scores(tags("B-x B-x I-x"), tags("B-x I-x I-x"))
    assert found.overall == MatchCounts(0, 1, 2)


def test_a_chunk_may_be_written_in_another_scheme():
    found = entity_scores(tags("I-x I-x B-x O I-y"), tags("B-x E-x S-x O U-y"))
    assert found.overall.f1 == 1.0


def test_an_ill_formed_prediction_still_counts():
    assert entity_scores(tags("B-x I-x O"), tags("I-x I-x O")).overall == MatchCounts(1, 1, 1)


def test_a_chunk_does_not_run_over_the_end_of_a_sentence():
    assert entity_scores(tags("B-x", "I-x"), tags("B-x", "B-x")).overall == MatchCounts(2, 2, 2)


def test_no_predictions_score_zero():
    found = entity_scores(tags("B-x I-x"), tags("O O")).overall
    assert (found.precision, found.recall, found.f1) == (0.0, 0.0, 0.0)
    assert entity_scores([], []).overall == MatchCounts(0, 0, 0)
    assert MatchCounts(0, 0, 0).f1 == 0.0


def test_labels_are_sorted_whether_wanted_or_predicted():
    found = entity_scores(tags("S-y O S-b"), tags("S-x S-a S-b"))
    assert list(found.by_label) == ["a", "b", "x", "y"]


def test_token_accuracy_counts_words_of_all_sentences_alike():
    assert token_accuracy(tags("N V N", "V"), tags("N V V", "V")) == 0.75
    assert token_accuracy([], []) == 0.0
    assert accuracy([], []) == 0.0


def test_each_word_needs_a_prediction():
    with pytest.raises(
        TextError, match="expected 1 predicted tags in sentence 2, one for each, got 2"
    ):
        entity_scores(tags("O", "O"), tags("O", "O O"))
    with pytest.raises(TextError, match="expected 2 predicted sentences, one for each, got 1"):
        token_accuracy(tags("N", "N"), tags("N"))
    for metric in (accuracy, macro_f1):
        with pytest.raises(TextError, match="expected 1 predicted labels, one for each, got 0"):
            metric(["a"], [])


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


def test_sets_of_labels_are_compared_label_by_label():
    found = label_set_scores([("x", "y"), ("x",), ()], [("y", "x"), (), ("z",)])
    assert found.overall == MatchCounts(correct=2, predicted=3, gold=3)
    assert found.macro_f1 == pytest.approx((2 / 3 + 1 + 0) / 3)  # x, y, z
    assert label_set_scores([()], [()]).macro_f1 == 0
    with pytest.raises(TextError, match="expected 1 predicted sets of labels, one for each, got 0"):
        label_set_scores([()], [])
