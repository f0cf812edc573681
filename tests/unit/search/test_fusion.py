"""BM25 refines the query vector, and both scores are combined."""

import numpy as np

from relmo.search.fusion import MIN_EVENNESS, Fusion


def test_a_query_moves_towards_what_it_found():
    query, first = np.array([1.0, 0, 0], np.float32), np.array([[0, 1.0, 0]] * 2, np.float32)
    moved = Fusion().refine(query, np.array([3.0, 3.0]), first)
    np.testing.assert_allclose(np.linalg.norm(moved), 1, rtol=1e-6)
    assert moved[1] > moved[0] > 0


def test_passages_with_more_of_the_words_teach_more():
    query, first = np.zeros(2, np.float32), np.eye(2, dtype=np.float32)
    moved = Fusion(trust=2.0).refine(query, np.array([4.0, 2.0]), first)
    np.testing.assert_allclose(moved[1] / moved[0], 0.25, rtol=1e-6)
    alike = Fusion(trust=0.0).refine(query, np.array([4.0, 2.0]), first)
    np.testing.assert_allclose(alike[1], alike[0], rtol=1e-6)


def test_words_and_vectors_are_joined():
    fusion = Fusion(share=1.5, sharpness=3.0)
    even = fusion.combine(np.array([2.0] * 6 + [0]), np.array([0.0] * 6 + [1]))
    np.testing.assert_allclose(even, [1] * 6 + [1.5])  # words leave six equals: vectors decide
    one = fusion.combine(np.array([4.0, 2, 0, 0]), np.array([0.0, 0, 0.5, 1]))
    np.testing.assert_allclose(one, [1, 1 / 8, 0.5 * 1.5 * 0.1, 1.5 * 0.1])
    alone = fusion.combine(np.array([4.0, 0, 0]), np.array([0.0, 0.5, 1]))
    np.testing.assert_allclose(
        alone, [1, 0.5 * 1.5 * MIN_EVENNESS, 1.5 * MIN_EVENNESS]
    )  # the rest by vectors
