"""Entity scores against cases worked out by hand."""

import pytest

from relmo.errors import TextError
from relmo.tasks.ner.metrics import Score, accuracy, entity_scores, token_accuracy


def tags(*sentences: str) -> list[list[str]]:
    return [sentence.split() for sentence in sentences]


def test_an_entity_counts_only_with_both_ends_and_its_label_right():
    wanted = tags("B-x I-x O B-y", "B-x O B-x I-x")
    predicted = tags("B-x I-x O B-x", "B-x I-x B-x I-x")
    found = entity_scores(wanted, predicted)
    assert found.overall == Score(correct=2, predicted=4, wanted=4)
    assert found.by_label == {"x": Score(2, 4, 3), "y": Score(0, 0, 1)}
    assert found.by_label["x"].precision == 0.5
    assert found.by_label["x"].recall == pytest.approx(2 / 3)
    assert found.by_label["x"].f1 == pytest.approx(4 / 7)


def test_two_chunks_read_as_one_are_both_missed():
    found = entity_scores(tags("B-x B-x I-x"), tags("B-x I-x I-x"))
    assert found.overall == Score(0, 1, 2)


def test_a_chunk_may_be_written_in_another_scheme():
    found = entity_scores(tags("I-x I-x B-x O I-y"), tags("B-x E-x S-x O U-y"))
    assert found.overall.f1 == 1.0


def test_an_ill_formed_prediction_still_counts():
    assert entity_scores(tags("B-x I-x O"), tags("I-x I-x O")).overall == Score(1, 1, 1)


def test_a_chunk_does_not_run_over_the_end_of_a_sentence():
    assert entity_scores(tags("B-x", "I-x"), tags("B-x", "B-x")).overall == Score(2, 2, 2)


def test_no_predictions_score_zero():
    found = entity_scores(tags("B-x I-x"), tags("O O")).overall
    assert (found.precision, found.recall, found.f1) == (0.0, 0.0, 0.0)
    assert entity_scores([], []).overall == Score(0, 0, 0)
    assert Score(0, 0, 0).f1 == 0.0


def test_labels_are_sorted_whether_wanted_or_predicted():
    found = entity_scores(tags("S-y O S-b"), tags("S-x S-a S-b"))
    assert list(found.by_label) == ["a", "b", "x", "y"]


def test_token_accuracy_counts_words_of_all_sentences_alike():
    assert token_accuracy(tags("N V N", "V"), tags("N V V", "V")) == 0.75
    assert token_accuracy([], []) == 0.0
    assert accuracy([], []) == 0.0


def test_each_word_needs_a_prediction():
    with pytest.raises(TextError, match="2 predicted tags in sentence 2, but 1 wanted"):
        entity_scores(tags("O", "O"), tags("O", "O O"))
    with pytest.raises(TextError, match="1 predicted sentences, but 2 wanted"):
        token_accuracy(tags("N", "N"), tags("N"))
    with pytest.raises(TextError, match="0 predicted labels, but 1 wanted"):
        accuracy(["a"], [])
