"""Latent dimensions: fitted to terms alone, the same each time, small, and checked when read."""

import json
import struct

import numpy as np
import pytest

from relmo.search.latent import MANY_PASSAGES, LatentWords

TOPICS = (["wing", "lift", "drag", "flow"], ["bank", "loan", "rate", "debt"])


@pytest.fixture(scope="module")
def passages():
    """Passages of two topics, each with three of its topic's four terms."""
    lot = np.random.default_rng(0)
    return [
        [*lot.choice(TOPICS[number % 2], 3, replace=False), f"own{number}"]
        for number in range(MANY_PASSAGES)
    ]


@pytest.fixture(scope="module")
def latent(passages):
    return LatentWords.fit(passages, 8)


def test_terms_that_come_together_are_near_each_other(passages):
    two = LatentWords.fit(passages, 2)  # as many as topics
    wing, drag, loan = two.vectors([["wing"], ["drag"], ["loan"]])
    assert wing @ drag > 0.9
    assert abs(wing @ loan) < 0.2


def test_vectors_are_those_of_an_exact_decomposition(passages):
    exact = LatentWords.fit(passages, 4)
    found = exact.codes * exact.scales[:, None]  # (V, K)
    np.testing.assert_allclose(found.T @ found, np.eye(4), atol=0.02)


def test_a_text_has_unit_length_or_nothing_to_say(latent):
    lengths = np.linalg.norm(latent.vectors([["wing", "wing", "loan"], ["never"], []]), axis=1)
    np.testing.assert_allclose(lengths, [1, 0, 0], atol=1e-6)


def test_terms_of_one_passage_are_left_out_of_a_large_sample(latent, passages):
    assert not any(term.startswith("own") for term in latent.row_of)
    few = LatentWords.fit(passages[:20], 8)
    assert {f"own{number}" for number in range(20)} <= few.row_of.keys()


def test_the_same_sample_gives_the_same_bytes(latent, passages):
    assert LatentWords.fit(passages, 8).to_bytes() == latent.to_bytes()


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_few_passages_have_fewer_dimensions(passages, count):
    found = LatentWords.fit(passages[:count], 8)
    assert found.width == count
    assert found.vectors([["wing"], []]).shape == (2, count)


def test_what_was_written_is_read(latent):
    again = LatentWords.from_bytes(latent.to_bytes())
    texts = [["wing", "loan"], ["水"]]
    np.testing.assert_array_equal(again.vectors(texts), latent.vectors(texts))
    assert again.row_of == latent.row_of


def test_damage_is_noticed(latent):
    data = latent.to_bytes()
    (length,) = struct.unpack_from("<Q", data)
    terms = json.loads(data[8 : 8 + length])
    renamed = json.dumps([terms[0]] * len(terms)).encode()
    twice = struct.pack("<Q", len(renamed)) + renamed + data[8 + length :]
    for wrong in (data[:-1], b"", twice, data[:8] + b"[1]" + data[11:]):
        with pytest.raises((ValueError, struct.error)):
            LatentWords.from_bytes(wrong)
