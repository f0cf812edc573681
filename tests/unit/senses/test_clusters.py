"""Clusters of made-up vectors, and the number of them."""

import numpy as np
import pytest

from relmo.runtime.pooling import normalize
from relmo.senses import clusters
from relmo.senses.clusters import by_size, cluster, cut, link


def clouds(sizes, spread=0.2, width=32, seed=0):
    """Vectors around as many random directions, and whose direction each has."""
    rng = np.random.default_rng(seed)
    centers = normalize(rng.normal(size=(len(sizes), width)).astype(np.float32))
    own = np.repeat(np.arange(len(sizes)), sizes)
    noise = rng.normal(size=(len(own), width)) * spread / width**0.5
    order = rng.permutation(len(own))
    return normalize((centers[own] + noise).astype(np.float32))[order], own[order]


def linked_by_hand(vectors):
    """Average linkage as it is defined, pair by pair."""
    groups = {i: [i] for i in range(len(vectors))}
    cosines, pairs, heights = (vectors @ vectors.T).astype(np.float64), [], []
    while len(groups) > 1:
        of = {
            (a, b): cosines[np.ix_(groups[a], groups[b])].mean()
            for a in groups
            for b in groups
            if a < b
        }
        a, b = max(of, key=of.__getitem__)
        pairs.append((a, b))
        heights.append(of[a, b])
        groups[a] += groups.pop(b)
    return pairs, heights


def test_linking_is_average_linkage():
    vectors = normalize(np.random.default_rng(1).normal(size=(25, 6)).astype(np.float32))
    pairs, heights = link(vectors)
    wanted, by_hand = linked_by_hand(vectors)
    assert [tuple(pair) for pair in pairs.tolist()] == wanted
    np.testing.assert_allclose(heights, by_hand, atol=1e-6)
    assert (np.diff(heights) <= 1e-9).all()


@pytest.mark.parametrize("sizes", [[40], [50, 30], [60, 30, 20], [30, 30, 30, 30, 30]])
def test_as_many_clusters_are_found_as_were_made(sizes):
    vectors, own = clouds(sizes)
    labels = cluster(vectors, 0.5)
    assert labels.max() + 1 == len(sizes)
    assert len(set(zip(labels.tolist(), own.tolist(), strict=True))) == len(sizes)


def test_a_few_strays_are_no_cluster():
    vectors, own = clouds([100, 2])
    assert cluster(vectors, 0.5).tolist() == [0] * 102
    assert cluster(vectors, 0.5, smallest=0.01).max() == 1
    assert cluster(vectors[own == 0][:1], 0.5).tolist() == [0]


def test_vectors_alike_are_one_cluster_and_vectors_all_apart_are_one_too():
    assert cluster(np.ones((9, 4), np.float32) / 2, 0.5).tolist() == [0] * 9
    assert cluster(np.eye(9, dtype=np.float32), 0.5).tolist() == [0] * 9  # nothing is alike


def test_vectors_beyond_those_linked_go_to_the_nearest(monkeypatch):
    vectors, own = clouds([300, 100])
    monkeypatch.setattr(clusters, "LINKED", 50)
    assert (cluster(vectors, 0.5) == own).all()


def test_the_largest_cluster_is_the_first():
    assert by_size(np.array([7, 3, 3, 5, 5, 5])).tolist() == [2, 1, 1, 0, 0, 0]
    vectors, _ = clouds([10, 20, 40])
    assert np.bincount(cut(*link(vectors), 0.5)).tolist() == [40, 20, 10]
