"""Measures of change, by hand, and their permutation tests."""

import numpy as np
import pytest

from relmo import Elmo
from relmo.runtime.pooling import normalize
from relmo.senses.change import (
    apd,
    assignments,
    common_words,
    jsd,
    measure,
    p_value,
    passages_of,
    prt,
    shared_words,
    shares_of,
)
from relmo.senses.places import Corpus, Pasted, Placed
from relmo.text.lexicon import Lexicon


def sample(n, center, seed=0):
    rng = np.random.default_rng(seed)
    return normalize((rng.normal(size=(n, 8)) + center).astype(np.float32))


def singly(n, before, permutations, seed=0):
    """Each place is a passage."""
    return assignments(np.arange(n), before, permutations, seed)


def test_measures_are_these_by_hand():
    vectors = np.array([[1, 0], [0, 1], [1, 0], [1, 0]], np.float32)
    real = singly(4, 2, 0)
    assert apd(vectors, real)[0] == pytest.approx(0.5)  # cosines 1, 1, 0, 0
    assert prt(vectors, real)[0] == pytest.approx(1 - 0.5**0.5)  # 45 degrees
    # (1/2, 1/2) and (1, 0): their mean has 0.8113 bits, they have 1 and 0
    assert jsd(np.array([0, 1, 0, 0]), real)[0] == pytest.approx(0.8112781 - 0.5)
    assert jsd(np.array([0, 0, 1, 1]), real)[0] == pytest.approx(1)
    assert jsd(np.array([0, 1, 1, 0]), real)[0] == 0
    assert jsd(np.zeros(4, np.int64), real)[0] == 0


def test_each_random_assignment_is_measured_as_a_real_one():
    vectors, labels = sample(12, 0.0), np.arange(12) % 3
    drawn = singly(12, 5, 20)
    assert (drawn.sum(1) == 5).all()
    for row in drawn:
        order = np.concatenate([np.flatnonzero(row), np.flatnonzero(~row)])
        alone = singly(12, 5, 0)
        for function, data in ((apd, vectors), (prt, vectors), (jsd, labels)):
            number = int((drawn == row).all(1).argmax())
            assert function(data[order], alone)[0] == pytest.approx(function(data, drawn)[number])


def test_p_counts_the_real_assignment():
    assert p_value(np.array([3.0, 1.0, 2.0, 3.0])) == 0.5
    assert p_value(np.array([3.0, 1.0, 2.0, 2.0])) == 0.25
    assert p_value(np.array([3.0])) == 1.0


def test_a_change_is_significant_and_equal_samples_are_not():
    labels, drawn = np.repeat([0, 1], 30), singly(60, 30, 199)
    changed = measure(np.concatenate([sample(30, 1.0), sample(30, -1.0, 1)]), labels, drawn)
    assert [m.p for m in changed] == [1 / 200] * 3
    same = np.concatenate([sample(30, 1.0)] * 2)
    found = measure(same, np.tile([0, 0, 1], 20), drawn)
    assert all(m.p > 0.9 for m in found[1:])  # the means and shares are the same
    assert found[1].value == pytest.approx(0, abs=1e-6)


def test_p_values_of_equal_sources_are_spread_evenly():
    p = []
    for seed in range(60):
        vectors = sample(40, 0.3, seed)
        p.append(
            [
                m.p
                for m in measure(
                    vectors, (vectors[:, 0] > 0.3).astype(int), singly(40, 20, 99, seed)
                )
            ]
        )
    below = (np.array(p) <= 0.1).mean(0)
    assert (below <= 0.25).all()  # 0.1 expected, 3.9 standard deviations allowed
    assert (np.array(p)[:, :2].mean(0) > 0.35).all()


def test_shares_of_senses_are_counted_by_period():
    assert shares_of(np.array([0, 0, 1, 0, 1, 1]), 4) == [
        {"before": 0.75, "after": 0.0}, {"before": 0.25, "after": 1.0}
    ]  # fmt: skip


def test_places_of_a_passage_stay_together():
    passages = np.repeat(np.arange(12), [1, 2, 3, 4, 5, 5, 1, 2, 3, 4, 5, 5])
    drawn = assignments(passages, 20, 300)
    for number in range(12):
        own = drawn[:, passages == number]
        assert (own.all(1) | ~own.any(1)).all()
    assert (abs(drawn.sum(1) - 20) <= 3).all()
    assert 0.4 < drawn[1:].mean() < 0.6
    two = assignments(np.array([0, 0, 0, 1]), 3, 50)
    assert set(two.sum(1).tolist()) == {1, 3}  # neither side is ever empty


def test_places_that_only_repeat_their_passage_prove_nothing():
    """Ten passages of ten places alike: as many independent places as passages."""
    wrong = {True: 0, False: 0}
    for seed in range(40):
        vectors = np.repeat(sample(10, 0.3, seed), 10, axis=0)
        labels = np.zeros(100, np.int64)
        for together in wrong:
            passages = np.repeat(np.arange(10), 10) if together else np.arange(100)
            wrong[together] += measure(vectors, labels, assignments(passages, 50, 99))[1].p <= 0.05
    assert wrong[True] <= 6
    assert wrong[False] >= 30


def test_a_p_value_that_cannot_be_low_is_none():
    vectors, labels = sample(40, 0.3), np.arange(40) % 2
    for passages, is_given in ((1, False), (3, False), (4, True), (20, True)):  # per corpus
        drawn = assignments(np.arange(40) * passages // 20, 20, 999)
        found = measure(vectors, labels, drawn)
        assert [m.p is not None for m in found] == [is_given] * 3
    for permutations, is_given in ((0, False), (18, False), (19, True)):
        found = measure(vectors, labels, singly(40, 20, permutations))
        assert [m.p is not None for m in found] == [is_given] * 3


def test_equal_means_have_no_negative_distance():
    vectors = np.tile(sample(1, 0.3), (10, 1))
    assert not np.signbit(prt(vectors, singly(10, 5, 9))).any()


def test_frequent_words_are_listed_once_without_the_common_ones(tiny):
    texts = ["the Bank . the cell . The bank . the cell . Cell . " * 9, "The bank the cell " * 9]
    corpora = [Corpus(tiny, Pasted(text), show=False) for text in texts]
    assert shared_words(corpora, 9) == ["the", "bank", "cell"]
    assert shared_words(corpora, 1, {"the"}) == ["bank"]
    assert shared_words(corpora, 0) == []
    words = ("<S>", "</S>", "<UNK>", "The", "the", "bank", "cell")
    counted = Elmo(tiny.bilm, Lexicon(words, np.array([0, 0, 9985, 4, 6, 4, 1])))
    assert common_words(counted) == {"the", "<unk>"}  # 10 of 10,000, 5 at most are kept
    assert common_words(Elmo(tiny.bilm, Lexicon(words))) == set()


def test_passages_of_the_two_corpora_are_apart():
    placed = [Placed((), None, passage) for passage in (1, 1, 2, 1, 2)]
    assert len(set(passages_of(placed, 3).tolist())) == 4
