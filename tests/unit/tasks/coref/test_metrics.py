"""MUC, B³ and CEAFφ4 against values computed by hand.

Mentions are written as letters: "ab c" is a cluster of a and b, and a singleton c.
"""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relmo.tasks.coref.metrics import (
    best_pairs,
    count,
    evaluate,
    f1,
    mean_f1,
    partition,
    score,
)


def clusters(text):
    return [[(ord(letter), ord(letter)) for letter in word] for word in text.split()]


def measures(gold, predicted):
    return evaluate([clusters(gold)], [clusters(predicted)])


def assert_quality(quality, recall, precision):
    assert quality.recall == pytest.approx(100 * recall)
    assert quality.precision == pytest.approx(100 * precision)
    both = recall + precision
    assert quality.f1 == pytest.approx(200 * recall * precision / both if both else 0)


def test_truth_against_itself_is_perfect():
    found = measures("abc de f", "f ed cab")
    for quality in (found.muc, found.b_cubed, found.ceaf, found.mentions):
        assert_quality(quality, 1, 1)
    assert found.mean_f1 == 100


@pytest.mark.parametrize(
    ("predicted", "muc", "b_cubed", "ceaf"),
    [
        # The three true clusters are abcde fg hijkl; what is lost is precision alone.
        ("abcde fghijkl", (1, 9 / 10), (1, (5 + 29 / 7) / 12), (11 / 6 / 3, 11 / 6 / 2)),
        ("abcdehijkl fg", (1, 9 / 10), (1, 7 / 12), (5 / 3 / 3, 5 / 3 / 2)),
        ("abcdefghijkl", (1, 9 / 11), (1, 54 / 144), (10 / 17 / 3, 10 / 17)),
        ("a b c d e f g h i j k l", (0, 0), (3 / 12, 1), (4 / 3 / 3, 4 / 3 / 12)),
    ],
)
def test_merged_and_split_clusters(predicted, muc, b_cubed, ceaf):
    found = measures("abcde fg hijkl", predicted)
    assert_quality(found.muc, *muc)
    assert_quality(found.b_cubed, *b_cubed)
    assert_quality(found.ceaf, *ceaf)
    assert_quality(found.mentions, 1, 1)


def test_mentions_of_only_one_side():
    found = measures("abc defg", "ab cd fghi")
    assert_quality(found.muc, 2 / 5, 2 / 5)
    assert_quality(found.b_cubed, 5 / 12, 1 / 2)
    assert_quality(found.ceaf, 1.3 / 2, 1.3 / 3)
    assert_quality(found.mentions, 6 / 7, 6 / 8)
    assert found.mean_f1 == pytest.approx((40 + 500 / 11 + 52) / 3)


def test_a_link_is_lost_for_every_piece_a_cluster_is_in():
    assert_quality(measures("abcd", "ab cd").muc, 2 / 3, 1)
    assert_quality(measures("ab cd", "abcd").muc, 1, 2 / 3)
    assert_quality(measures("abcd", "abxy").muc, 1 / 3, 1 / 3)


def test_singletons_count_for_all_but_muc():
    found = measures("ab c d", "ab c e")
    assert_quality(found.muc, 1, 1)
    assert_quality(found.b_cubed, 3 / 4, 3 / 4)
    assert_quality(found.ceaf, 2 / 3, 2 / 3)
    assert_quality(found.mentions, 3 / 4, 3 / 4)


def test_singletons_alone_have_no_links():
    found = measures("a b", "a b")
    assert_quality(found.muc, 0, 0)
    assert_quality(found.b_cubed, 1, 1)
    assert found.mean_f1 == pytest.approx(200 / 3)


@pytest.mark.parametrize(("gold", "predicted"), [("ab cd", ""), ("", "ab cd"), ("", "")])
def test_an_empty_side_scores_zero(gold, predicted):
    found = measures(gold, predicted)
    for quality in (found.muc, found.b_cubed, found.ceaf, found.mentions):
        assert_quality(quality, 0, 0)
    assert found.mean_f1 == 0


def test_nothing_in_common_scores_zero():
    assert measures("ab cd", "ef gh").mean_f1 == 0


def test_spans_that_overlap_are_different_mentions():
    found = evaluate([[[(0, 3), (5, 5)]]], [[[(0, 2), (5, 5)]]])
    assert_quality(found.mentions, 1 / 2, 1 / 2)
    assert_quality(found.muc, 0, 0)


def test_nested_mentions_are_different_mentions():
    gold = [[(0, 3), (0, 0)], [(2, 3), (7, 7)]]
    assert evaluate([gold], [gold]).mean_f1 == 100


def test_a_mention_given_twice_belongs_to_the_first_cluster():
    assert partition(clusters("aab bc c")) == clusters("ab c")
    np.testing.assert_array_equal(
        count(clusters("ab cd"), clusters("aab bcd a")), count(clusters("ab cd"), clusters("ab cd"))
    )


def test_ceaf_pairs_clusters_for_the_greatest_sum():
    # The best pair alone, abcde with abcfg (6/10), would leave nothing to fgh.
    found = measures("abcde fgh", "abcfg de")
    assert_quality(found.ceaf, (4 / 7 + 4 / 8) / 2, (4 / 7 + 4 / 8) / 2)


def test_counts_of_documents_are_summed_before_they_are_divided():
    pairs = [("abcd", "ab cd"), ("ab", "ab"), ("", "xy")]
    gold, predicted = zip(*((clusters(g), clusters(p)) for g, p in pairs), strict=True)
    found = evaluate(gold, predicted)
    assert_quality(found.muc, (2 + 1) / (3 + 1), (2 + 1) / (2 + 1 + 1))
    assert_quality(found.b_cubed, (2 + 2) / (4 + 2), (4 + 2) / (4 + 2 + 2))
    assert_quality(found.ceaf, (2 / 3 + 1) / (1 + 1), (2 / 3 + 1) / (2 + 1 + 1))
    assert score(sum(map(count, gold, predicted))) == found


def test_many_sums_are_scored_at_once():
    pairs = [("abcd", "ab cd"), ("ab", "ab"), ("ab", "")]
    counts = np.stack([count(clusters(g), clusters(p)) for g, p in pairs])
    assert f1(counts).shape == (3, 4)
    assert mean_f1(counts).tolist() == [score(each).mean_f1 for each in counts]


def test_documents_must_come_in_pairs():
    with pytest.raises(ValueError, match="shorter"):
        evaluate([[], []], [[]])


@given(st.integers(0, 4), st.integers(0, 4), st.data())
def test_best_pairs_are_as_good_as_any(num_rows, num_columns, data):
    cells = st.lists(st.integers(0, 5), min_size=num_columns, max_size=num_columns)
    rows = data.draw(st.lists(cells, min_size=num_rows, max_size=num_rows))
    values = np.array(rows, dtype=float).reshape(num_rows, num_columns)
    found = best_pairs(values)
    wide = values if num_rows <= num_columns else values.T
    choices = permutations(range(wide.shape[1]), wide.shape[0])
    best = max(sum(wide[i, j] for i, j in enumerate(choice)) for choice in choices)
    assert values[found].sum() == best
    assert [len(set(side.tolist())) for side in found] == [min(num_rows, num_columns)] * 2


def test_hundreds_of_clusters_are_paired():
    order = np.random.default_rng(0).permutation(300)
    values = np.eye(300)[order]
    rows, columns = best_pairs(values + 0.001)
    assert values[rows, columns].sum() == 300
