"""Exact match and F1, computed by hand."""

import numpy as np
import pytest

from relmo.tasks.squad.data import Answer, Context, Question
from relmo.tasks.squad.metrics import best_scores, evaluate, normalize

NOWHERE = Context("", (), np.zeros(0, np.int32), np.zeros(0, np.int32))


def question(name, *answers):
    return Question(name, "", NOWHERE, (), tuple(Answer(text, 0, 0) for text in answers))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The  U.S.!", ["us"]),
        ("a cat, an owl and the\tant", ["cat", "owl", "and", "ant"]),
        ("Athe theatre", ["athe", "theatre"]),
        ("«Ünïcode» 🐈", ["«ünïcode»", "🐈"]),  # only ASCII punctuation goes
        ("well-known", ["wellknown"]),
        ("the a-team", ["ateam"]),  # punctuation goes first, so that "a-" is no article
        ("The", []),
        ("", []),
    ],
)
def test_case_punctuation_articles_and_spaces_do_not_count(text, words):
    assert normalize(text) == words


def test_f1_is_that_of_bags_of_words():
    exact_match, f1 = best_scores("red red cat", ["the red cat sat down"])
    assert exact_match == 0
    assert f1 == pytest.approx(100 * 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))


def test_a_word_counts_as_often_as_both_have_it():
    assert best_scores("no no no", ["no no"])[1] == pytest.approx(80)


def test_each_measure_takes_the_answer_that_fits_best():
    assert best_scores("in 1843", ["1843", "In 1843.", "the year 1843"]) == (100, 100)
    assert best_scores("1843 or 1844", ["1843", "in 1843 or so"])[1] == pytest.approx(400 / 7)


def test_order_matters_for_exact_match_alone():
    assert best_scores("b c", ["c b"]) == (0, 100)


def test_texts_without_words_match_exactly_and_share_nothing():
    assert best_scores("the", ["."]) == (100, 0)  # as the official script has it
    assert best_scores("", ["cat"]) == (0, 0)


def test_scores_are_means_over_questions():
    questions = [question("a", "x"), question("b", "y z"), question("c", "w")]
    exact_match, f1 = evaluate(questions, ["x", "y", "v"])
    assert exact_match == pytest.approx(100 / 3)
    assert f1 == pytest.approx((100 + 200 / 3 + 0) / 3)


def test_each_question_needs_a_prediction():
    with pytest.raises(ValueError, match="shorter"):
        evaluate([question("a", "cat"), question("b", "owl")], ["a cat"])


def test_no_questions_score_nothing():
    assert evaluate([], []) == (0, 0)
