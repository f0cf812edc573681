"""relmo-en-small, as it ships: its size, its vectors, what it has learned."""

import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from relmo import Elmo
from relmo.weights.find import convert_model, describe_folder, describe_model
from scripts import sense_test

FOLDER = Path(str(files("relmo"))) / "models" / "relmo-en-small"
SENTENCES = [
    ["The", "bank", "raised", "interest", "rates", "again", "."],
    ["They", "walked", "along", "the", "bank", "of", "the", "river", "."],
    ["Élodie", "does", "n't", "know", "1,000", "well-known", "words", "😀"],
]


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    return Elmo.from_pretrained("relmo-en-small", device="cpu")


def test_it_is_small_and_carries_card_and_licence():
    sizes = {path.name: path.stat().st_size for path in FOLDER.iterdir()}
    assert sum(sizes.values()) <= 30e6
    assert {"README.md", "LICENSE", "perplexity.svg", "vocab.txt"} <= sizes.keys()
    assert "creativecommons.org/licenses/by-sa/4.0" in (FOLDER / "LICENSE").read_text()


def test_its_files_are_those_that_were_measured():
    assert describe_model("relmo-en-small")["licence"] == "CC-BY-SA-4.0"
    found = describe_folder(FOLDER)["files"]
    assert {"model.safetensors", "lm_head.safetensors", "vocab.txt"} <= found.keys()
    assert all(each["matches"] is not False for each in found.values())


def test_it_has_the_official_small_shapes_and_a_softmax(elmo):
    assert (elmo.config.num_layers, elmo.config.width) == (3, 256)
    assert elmo.config.lstm.cell_width == 1024
    assert len(elmo.lexicon) == 100_000


def test_its_vectors_are_numbers_of_moderate_size(elmo):
    for vectors in elmo.embed(SENTENCES):
        assert np.isfinite(vectors).all()
        assert 0.05 < np.abs(vectors).mean() < 5


def test_it_has_learned_english(elmo):
    text = "The city lies on the river and has a population of about 20,000 people ."
    found = elmo.lm.perplexity([[text.split()]], "zero")
    shuffled = elmo.lm.perplexity([[sorted(text.split())]], "zero")
    assert found.mean < 60
    assert shuffled.mean > 20 * found.mean


def test_it_fills_in_words_that_fit(elmo):
    found = elmo.lm.substitutes(["She", "was", "born", "in", "London", "in", "1950", "."], 4, k=10)
    assert {"Paris", "Berlin", "London"} <= {word for word, _ in found}


def test_the_official_format_gives_the_same_vectors_from_a_zero_state(elmo, tmp_path):
    convert_model("relmo-en-small", tmp_path / "official", "hdf5")
    copy = Elmo.from_pretrained(tmp_path / "official", device="cpu")
    for one, two in zip(elmo.embed(SENTENCES), copy.embed(SENTENCES), strict=True):
        np.testing.assert_array_equal(one, two)


def test_its_record_says_how_it_was_made():
    training = json.loads((FOLDER / "config.json").read_text())["training"]
    assert training["tokens_seen"] == 547_454_976
    assert training["taught_by"] == "relmo-en-base"
    assert training["init"]["tokens_seen"] == 617_480_192
    assert training["recipe"]["optimizer"]["optimizer"] == "muon"


def test_the_senses_score_what_the_card_says(elmo):
    scores = sense_test.run(elmo, sense_test.read_words(sense_test.SENSES))
    top = sense_test.overall(scores)[2]
    assert f"| layer 2 | {top:.1f} |" in (FOLDER / "README.md").read_text()
