"""Terms, BM25, the order of hits, and the measures of rankings."""

import math

import numpy as np
import pytest

from relmo.errors import ConfigError
from relmo.search.bm25 import bm25, ranked
from relmo.search.evaluate import ndcg, spearman
from relmo.search.fusion import LEAST, Fusion
from relmo.search.terms import make_terms

pytest.importorskip("Stemmer", reason="pip install 'relmo[search]'")


def test_terms_are_stemmed_without_stop_words():
    assert make_terms("english")("The Boundaries of BANKS, ﬁtted.") == ["boundari", "bank", "fit"]
    assert make_terms("none")("The Übung 水") == ["the", "übung", "水"]
    assert len(make_terms("none")("x" * 999)[0]) == 64


def test_an_unknown_language_names_those_there_are():
    with pytest.raises(ConfigError, match="english"):
        make_terms("klingon")


def test_bm25_is_the_formula_written_out():
    often, length = np.array([1.0, 3.0]), np.array([10.0, 40.0])
    rarity = math.log(1 + (100 - 2 + 0.5) / 2.5)
    wanted = [
        rarity * f * 2.5 / (f + 1.5 * (0.25 + 0.75 * n / 20))
        for f, n in zip(often, length, strict=True)
    ]
    np.testing.assert_allclose(bm25(often, length, 20.0, 100), wanted)


def test_equal_scores_are_ordered_by_number():
    ids, scores = np.array([5, 3, 9, 1]), np.array([0.5, 0.5000001, 0.9, 0.1])
    assert [each.passage for each in ranked(ids, scores, 3)] == [9, 3, 5]
    assert [each.passage for each in ranked(ids, scores, 2)] == [9, 3]
    assert len(ranked(ids, scores, 99)) == 4


def test_a_query_moves_towards_what_it_found():
    query, first = np.array([1.0, 0, 0], np.float32), np.array([[0, 1.0, 0]] * 2, np.float32)
    moved = Fusion().learn(query, np.array([3.0, 3.0]), first)
    np.testing.assert_allclose(np.linalg.norm(moved), 1, rtol=1e-6)
    assert moved[1] > moved[0] > 0


def test_passages_with_more_of_the_words_teach_more():
    query, first = np.zeros(2, np.float32), np.eye(2, dtype=np.float32)
    moved = Fusion(trust=2.0).learn(query, np.array([4.0, 2.0]), first)
    np.testing.assert_allclose(moved[1] / moved[0], 0.25, rtol=1e-6)
    alike = Fusion(trust=0.0).learn(query, np.array([4.0, 2.0]), first)
    np.testing.assert_allclose(alike[1], alike[0], rtol=1e-6)


def test_words_and_vectors_are_joined():
    fusion = Fusion(share=1.5, sharpness=3.0)
    even = fusion.combine(np.array([2.0] * 6 + [0]), np.array([0.0] * 6 + [1]))
    np.testing.assert_allclose(even, [1] * 6 + [1.5])  # words leave six equals: vectors decide
    one = fusion.combine(np.array([4.0, 2, 0, 0]), np.array([0.0, 0, 0.5, 1]))
    np.testing.assert_allclose(one, [1, 1 / 8, 0.5 * 1.5 * 0.1, 1.5 * 0.1])
    alone = fusion.combine(np.array([4.0, 0, 0]), np.array([0.0, 0.5, 1]))
    np.testing.assert_allclose(alone, [1, 0.5 * 1.5 * LEAST, 1.5 * LEAST])  # the rest by vectors


def test_ndcg_of_known_rankings():
    assert ndcg(["a", "b"], {"a", "b"}) == 1
    assert ndcg(["x", "a"], {"a"}) == pytest.approx(1 / math.log2(3))
    assert ndcg(["x"] * 10 + ["a"], {"a"}) == 0
    assert ndcg(["a"], set()) == 0


def test_spearman_of_known_orders():
    assert spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 1, 2], [1, 2, 2]) == pytest.approx(0.5)
