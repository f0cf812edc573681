"""scripts/measure_senses.py and measure_change.py: their scores by hand, and pairs of words."""

from collections import Counter

import numpy as np
import pytest

from relmo.senses.places import Placed
from relmo.text.places import Place
from scripts.measure_change import auc, choose_pairs, disguise, mix, parts_of_speech
from scripts.measure_senses import scores


def test_scores_of_clusters_are_these_by_hand():
    v, paired, rand, cubed, count = scores(["a", "a", "b", "b"], np.array([0, 0, 0, 1]))
    # homogeneity 1 - 0.6887 / 1, completeness 1 - 0.5 / 0.8113 (bits)
    assert v == pytest.approx(2 * 0.3112781 * 0.3836885 / (0.3112781 + 0.3836885), abs=1e-6)
    assert paired == pytest.approx(2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2))  # 1 of 3, 1 of 2 pairs
    assert rand == pytest.approx(0)  # 1 pair right, 2 * 3 / 6 expected
    assert cubed == pytest.approx(2 * (2 / 3) * (3 / 4) / (2 / 3 + 3 / 4))
    assert count == 2


def test_perfect_clusters_and_trivial_ones():
    senses = np.array([0, 0, 1, 1, 1])
    np.testing.assert_allclose(scores(senses, 1 - senses), [1, 1, 1, 1, 2])
    one, each = scores(senses, np.zeros(5, np.int64)), scores(senses, np.arange(5))
    assert (one[0], one[2]) == (0, 0)
    assert one[1] == pytest.approx(2 * 0.4 / 1.4)
    assert (each[1], each[2]) == (0, 0)
    assert each[0] > 0.5


def test_auc_is_the_chance_to_be_higher():
    assert auc([3, 4], [1, 2]) == 100
    assert auc([1, 3], [2, 1]) == 62.5  # one tie of four


def test_words_of_a_pair_have_one_tag_and_like_counts(tmp_path):
    path = tmp_path / "tags.conllu"
    tags = {"river": "NOUN", "rivers": "NOUN", "stone": "NOUN", "cloud": "NOUN", "walked": "VERB"}
    path.write_text("".join(f"1\t{word}\t_\t{tag}\n" for word, tag in tags.items()) * 5)
    assert parts_of_speech(path) == tags
    counts = [Counter(river=90, rivers=91, stone=92, cloud=300, walked=95)] * 2
    [pair] = choose_pairs(counts, tags, 90, 9, 0)
    assert set(pair) == {"rivers", "stone"}  # not river and rivers; cloud and walked are left


def test_a_pseudo_word_hides_both_words_everywhere():
    words = ("Stone", "by", "stone", ",", "river", "by", "sea")
    [(hidden, place, passage, *_)] = disguise(
        [Placed(words, Place(0, 2, 1, "", 0, 0), 7)], ("river", "stone")
    )
    name = "riverstone"
    assert hidden == (name, "by", name, ",", name, "by", "sea")
    assert (place.position, passage) == (2, 7)


def test_rows_of_a_mix_are_some_of_a_and_some_of_b():
    sets = [[None] * 5, [None] * 4]
    assert mix(sets, 0.5, 10) == [10, 11, 17, 18]
    assert mix(sets, 0.0, 0) == [0, 1, 2, 3]
    assert mix(sets, 1.0, 0) == [5, 6, 7, 8]
