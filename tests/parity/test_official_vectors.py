"""Vectors computed by the original TensorFlow code, with and without skip connections."""

import json

import h5py
import numpy as np
import pytest
import torch

from relmo import Elmo
from tests.conftest import CONFORMANCE

pytestmark = pytest.mark.skipif(
    not CONFORMANCE.is_dir(),
    reason="the official fixtures are missing; tests/parity/test_golden.py covers the same",
)
SETS = ["allennlp", "bilm-tf/model"]


def batches(folder) -> list[list[list[str]]]:
    lists = json.loads(next(folder.glob("*sentences.json")).read_text())
    return [[sentences[i].split() for sentences in lists] for i in range(10)]


@pytest.mark.parametrize("name", SETS)
def test_the_top_layer_with_carried_state_is_the_originals(name):
    folder = CONFORMANCE / name
    elmo, state = Elmo.from_pretrained(folder), None
    for i, batch in enumerate(batches(folder)):
        found, state = elmo.read(batch, state)
        for k, layers in enumerate(found):
            with h5py.File(folder / f"lm_embeddings_{k}.hdf5") as file:
                wanted = np.concatenate(file[str(i)][...], -1)  # forward and backward halves
            np.testing.assert_allclose(layers[-1], wanted, rtol=0, atol=1e-5)


def test_the_token_layer_is_the_originals():
    folder = CONFORMANCE / "allennlp"
    elmo = Elmo.from_pretrained(folder)
    words = (folder / "vocab_test.txt").read_text().splitlines()
    with h5py.File(folder / "elmo_token_embeddings.hdf5") as file:
        wanted = file["embedding"][...]
    with torch.no_grad():
        found = elmo.bilm.token_layer(elmo.runtime.spell(words)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
