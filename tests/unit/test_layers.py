"""Vectors that tell senses apart: what both sides expect, and what is there."""

import numpy as np
import pytest
import torch

from relmo.layers import sense_vectors


def make_layers(L=2, B=2, T=5, P=3) -> torch.Tensor:
    return torch.randn(L + 1, B, T, 2 * P, generator=torch.Generator().manual_seed(0))


def test_what_both_sides_expect_comes_from_the_tokens_beside_the_word():
    layers = make_layers()
    found = sense_vectors(layers)
    expected = layers[2, 1, 2, :3] + layers[2, 1, 4, 3:]  # before and after token 3
    torch.testing.assert_close(found[1, 3, :3], expected / expected.norm() / 2**0.5)


def test_the_word_changes_only_what_is_there():
    layers = make_layers()
    other = layers.clone()
    other[:, :, 2] = 7.0
    same, changed = sense_vectors(layers)[:, 2], sense_vectors(other)[:, 2]
    assert torch.equal(same[:, :3], changed[:, :3])
    assert not torch.isclose(same[:, 3:], changed[:, 3:]).any()


def test_the_layers_together_weigh_as_much_as_what_is_expected():
    found = sense_vectors(make_layers(L=3))[:, 1:-1]
    assert found.shape == (2, 3, 3 + 3 * 6)
    for part in (found[..., :3], found[..., 3:]):
        torch.testing.assert_close(part.norm(dim=-1), torch.full((2, 3), 0.5**0.5))


def test_a_product_of_two_sense_vectors_is_their_cosine(tiny):
    money, river = (found[1] for found in tiny.sense_vectors(["a bank lent", "the bank grew"]))
    assert money @ money == pytest.approx(1, abs=1e-6)
    lengths = np.linalg.norm(money) * np.linalg.norm(river)
    assert money @ river == pytest.approx(money @ river / lengths, abs=1e-6)


def test_boundaries_and_vectors_of_zeros_stay_zero():
    found = sense_vectors(torch.zeros(3, 1, 4, 6))
    assert found.shape == (1, 4, 3 + 2 * 6)
    assert not found.any()


def test_a_sentence_has_the_same_vectors_alone_and_among_others(tiny):
    sentences = [["The", "bank", "closed", "."], ["A", "bank"], [], ["river"] * 9]
    together = tiny.sense_vectors(sentences)
    config = tiny.config
    width = config.width // 2 + (config.num_layers - 1) * config.width
    assert [found.shape for found in together] == [(len(words), width) for words in sentences]
    for words, found in zip(sentences, together, strict=True):
        np.testing.assert_allclose(tiny.sense_vectors([words])[0], found, atol=1e-5, rtol=0)


def test_half_precision_and_strings_are_taken(tiny):
    (found,) = tiny.sense_vectors(["The bank closed."], dtype="float16")
    assert found.dtype == np.float16
    assert len(found) == 4
