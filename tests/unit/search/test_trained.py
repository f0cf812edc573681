"""An index with a trained encoder: vectors, what is stored, which model it is opened with."""

import dataclasses

import numpy as np
import pytest

import relmo
from relmo import Elmo, SemanticIndex
from relmo.errors import ConfigError
from relmo.search import Document
from relmo.search.models import fit_encoder, model_of, open_model, read_encoder
from relmo.search.settings import IndexSettings
from relmo.search.trained import TrainedEncoder

TEXTS = [
    "The bank raised its rates.",
    "We sat on the bank and fished.",
    "水 é 😀",
    "",
    "Loans cost.",
]


@pytest.fixture(scope="module")
def model():
    return relmo.load("relmo-en-search")


@pytest.fixture(scope="module")
def fitted(model):
    return fit_encoder(model, IndexSettings(), TEXTS)


def test_a_vector_is_what_a_text_means_and_which_words_it_shares(model, fitted):
    encoder, settings = fitted
    found = encoder.encode(TEXTS)
    assert found.shape == (len(TEXTS), settings.width)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, 1, 1, 0, 1], atol=1e-5)
    meaning = found[0, : model.width]
    np.testing.assert_allclose(meaning / np.linalg.norm(meaning), model.encode(TEXTS[0]), atol=1e-5)


def test_a_vector_does_not_depend_on_the_other_texts(fitted):
    encoder, _ = fitted
    together = encoder.encode(TEXTS)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_terms_that_are_known_are_not_looked_for_again(fitted):
    encoder, _ = fitted
    terms = [encoder.analyze(text) for text in TEXTS]
    np.testing.assert_array_equal(encoder.encode(TEXTS, terms), encoder.encode(TEXTS))


def test_what_was_stored_gives_the_same_vectors(model, fitted):
    encoder, settings = fitted
    again = read_encoder(model, settings, encoder.to_bytes(settings))
    assert isinstance(again, TrainedEncoder)
    np.testing.assert_array_equal(again.encode(TEXTS), encoder.encode(TEXTS))


def test_another_model_is_refused(model, fitted):
    encoder, settings = fitted
    other = dataclasses.replace(settings, fingerprint="f")
    with pytest.raises(ConfigError, match="another model"):
        read_encoder(model, other, encoder.to_bytes(settings))


def test_settings_of_an_elmo_are_refused(model):
    with pytest.raises(ConfigError, match=r"layer is for an ELMo.*--model"):
        fit_encoder(model, IndexSettings(layer="top"), TEXTS)


def test_a_task_model_that_gives_no_vectors_is_refused():
    with pytest.raises(ConfigError, match="gives no vectors of texts"):
        open_model("relmo-en-pos")


def test_an_elmo_that_is_given_is_read_with(model, fitted):
    _, settings = fitted
    own, other = Elmo.from_pretrained("relmo-en-small"), Elmo.from_pretrained("relmo-untrained")
    assert model_of(settings, own).elmo is own
    assert model_of(settings, other).elmo is not other
    assert model_of(settings, None).fingerprint() == settings.fingerprint


def test_an_index_uses_the_encoder_unless_told_otherwise(tmp_path):
    documents = [Document(str(number), "all", text) for number, text in enumerate(TEXTS)]
    path = tmp_path / "i.relmo"
    SemanticIndex.build(path, documents).close()
    with SemanticIndex.open(path) as index:
        assert index.settings.model == "relmo-en-search"
        assert index.search("interest on credit", 1, by="vectors")[0].document in ("0", "4")
    with SemanticIndex.build(
        tmp_path / "j.relmo", documents, elmo=Elmo.from_pretrained("relmo-en-small")
    ) as index:
        assert (index.settings.model, index.settings.latent) == ("relmo-en-small", 0)
