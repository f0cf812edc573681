"""Word weights, isotropy, and the sample that an encoder is fitted to."""

from collections import Counter

import numpy as np
import pytest

from relmo import Elmo
from relmo.errors import ConfigError
from relmo.search.encoder import (
    IsotropyTransform,
    PassageEncoder,
    WordWeights,
    random_texts,
    sample_passages,
)
from relmo.search.settings import IndexSettings
from relmo.text.lexicon import Lexicon

TEXTS = ["The bank raised rates.", "We sat on the bank. It rained!", "水 é 😀", "a " * 300]


@pytest.fixture
def leaning():
    """Vectors that share a large part and vary mostly in one direction, (N, D)."""
    random = np.random.default_rng(0)
    spread = np.array([20.0, 5, 1, 1, 1, 1, 1, 1])
    return (random.normal(size=(400, 8)) * spread + 10).astype(np.float32)


def test_the_mean_is_taken_out(leaning):
    cosines = IsotropyTransform.fit(leaning, "none").apply(leaning).mean(0)
    centred = IsotropyTransform.fit(leaning, "mean").apply(leaning).mean(0)
    assert np.linalg.norm(centred) < 0.2 * np.linalg.norm(cosines)


def test_main_directions_are_taken_out(leaning):
    fixed = IsotropyTransform.fit(leaning, "directions", 2).apply(leaning)
    assert np.abs(fixed[:, :2]).max() < 0.2


def test_whitened_directions_vary_alike(leaning):
    fixed = IsotropyTransform.fit(leaning, "whiten").apply(leaning)
    assert fixed.std(0).max() / fixed.std(0).min() < 1.8  # one direction is near the ridge
    np.testing.assert_allclose(np.linalg.norm(fixed, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
@pytest.mark.parametrize("fix", ["none", "mean", "directions", "whiten"])
def test_few_texts_keep_their_own_vectors(leaning, fix, count):
    few = leaning[:count]
    fixed = IsotropyTransform.fit(few, fix).apply(few)
    assert np.isfinite(fixed).all()
    assert (np.linalg.norm(fixed, axis=1) > 0.99).all()


@pytest.mark.parametrize("count", [0, 4, 40])
def test_a_prior_shows_what_a_few_texts_do_not(leaning, count):
    few, others, random = leaning[:count], leaning[40:200], leaning[200:]
    alone = IsotropyTransform.fit(few).apply(others)
    together = IsotropyTransform.fit(few, prior=random).apply(others)
    assert np.linalg.norm(together.mean(0)) < 0.6 * np.linalg.norm(alone.mean(0))
    assert together.std(0).max() / together.std(0).min() < 1.8


def test_random_texts_are_reproducible_and_use_common_words_often():
    lexicon = Lexicon(["the", "<S>", "</S>", "<UNK>", *(f"w{i}" for i in range(5000))])
    texts = random_texts(lexicon)
    assert texts == random_texts(lexicon)
    words = Counter(word for text in texts for word in text.split())
    assert words.most_common(1)[0][0] == "the"
    assert not words.keys() & {"<S>", "</S>", "<UNK>"}
    assert random_texts(Lexicon(["<S>", "</S>", "<UNK>"])) == []


def test_a_text_without_words_stays_zero(leaning):
    assert not IsotropyTransform.fit(leaning).apply(np.zeros((1, 8), np.float32)).any()


@pytest.mark.parametrize("weighting", ["none", "vocabulary", "corpus"])
@pytest.mark.parametrize("has_lexicon", [True, False])
def test_an_encoder_is_stored_and_read_back(tiny, weighting, has_lexicon):
    elmo = Elmo(tiny.bilm, Lexicon(["<S>", "</S>", "<UNK>", ".", "the"]) if has_lexicon else None)
    settings = IndexSettings(weighting=weighting, fingerprint=elmo.fingerprint())
    fitted = PassageEncoder.fit(elmo, settings, TEXTS)
    again = PassageEncoder.from_bytes(elmo, settings, fitted.to_bytes(settings))
    assert again.weights == fitted.weights
    np.testing.assert_array_equal(again.encode(TEXTS), fitted.encode(TEXTS))


def test_common_words_count_less():
    lexicon = Lexicon(["the", "<S>", "</S>", "<UNK>", *(f"w{i}" for i in range(5000)), "Rome"])
    the, rare, name, odd = WordWeights.from_lexicon(lexicon, 1e-4).of(
        ["The", "w4000", "rome", "??"]
    )
    assert the < 0.01 < 0.5 < rare < name <= odd <= 1


def test_words_are_counted_in_the_sample():
    weights = WordWeights.from_sentences([["the", "The", "the", "cat"]], 0.25)
    np.testing.assert_allclose(weights.of(["THE", "cat", "dog"]), [0.25, 0.5, 0.5])


def test_uniform_weights_give_what_encode_gives(tiny):
    plain = PassageEncoder(tiny, "mean", WordWeights())
    np.testing.assert_allclose(plain.pooled(TEXTS), tiny.encode(TEXTS), atol=1e-5)


@pytest.mark.parametrize("layer", ["mean", "bottom", "top", 0, 2])
def test_a_texts_vector_does_not_depend_on_its_company(tiny, layer):
    encoder = PassageEncoder.fit(tiny, IndexSettings(layer=layer), TEXTS)
    together = encoder.encode([*TEXTS, "", "?"])
    for text, row in zip(TEXTS, together, strict=False):
        np.testing.assert_allclose(encoder.encode([text])[0], row, atol=2e-5)
    assert not together[4].any()


def test_bottom_is_the_mean_of_layers_0_and_1(tiny):
    zero, one, bottom = (
        PassageEncoder(tiny, layer, WordWeights()).pooled(TEXTS) for layer in (0, 1, "bottom")
    )
    np.testing.assert_allclose(bottom, (zero + one) / 2, atol=1e-5)


def test_an_encoder_of_another_model_is_refused(tiny):
    settings = IndexSettings(fingerprint="other")
    data = PassageEncoder.fit(tiny, settings, TEXTS).to_bytes(settings)
    with pytest.raises(ConfigError, match="another model"):
        PassageEncoder.from_bytes(tiny, settings, data)


def test_the_sample_is_the_same_whatever_the_order():
    texts = [f"text {i}" for i in range(500)]
    found = sample_passages(texts, 50)
    assert found == sample_passages([*reversed(texts), *texts], 50)
    assert len(set(found)) == 50
    assert sorted(sample_passages(["b", "a", "b"], 50)) == ["a", "b"]
