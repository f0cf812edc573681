"""relmo's AllenNLP interface gives AllenNLP's own numbers."""

import numpy as np
import pytest
import torch

from relmo.compat.allennlp import Elmo, ElmoEmbedder, batch_to_ids
from tests.support.golden import BATCHES, FOLDER, RUNS, WORD_IDS

FILES = (FOLDER / "options.json", FOLDER / "weights.hdf5")
EXPECTED = np.load(FOLDER / "expected.npz")


@pytest.fixture
def make():
    def make(stateful: bool, options: dict) -> Elmo:
        elmo = Elmo(*FILES, 2, stateful=stateful, **options).eval()
        if "scalar_mix_parameters" not in options:
            with torch.no_grad():
                elmo.scalar_mix_1.s.copy_(torch.tensor([0.5, -0.3, 0.1]))
                elmo.scalar_mix_1.gamma.fill_(0.7)
        return elmo

    return make


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RUNS)
def test_every_option_gives_allennlps_numbers(make, name):
    run = RUNS[name]
    elmo = make(run["stateful"], run["options"])
    for b, batch in enumerate(BATCHES):
        words = torch.tensor(WORD_IDS[b]) if "vocab_to_cache" in run["options"] else None
        output = elmo(batch_to_ids(batch), words)
        assert np.array_equal(output["mask"].numpy(), EXPECTED[f"{name}/{b}/mask"])
        for k, vectors in enumerate(output["elmo_representations"]):
            wanted = EXPECTED[f"{name}/{b}/{k}"]
            np.testing.assert_allclose(vectors.detach().numpy(), wanted, rtol=0, atol=1e-5)


def test_the_carried_state_is_really_tested():
    difference = np.abs(EXPECTED["zero state/1/0"] - EXPECTED["carried state/1/0"]).max()
    assert difference > 0.1


@pytest.mark.parametrize("name", ["zero state", "carried state"])
def test_the_embedder_gives_the_same_layers(name):
    embedder = ElmoEmbedder(*FILES, stateful=RUNS[name]["stateful"])
    for b, batch in enumerate(BATCHES):
        found = embedder.embed_batch(batch)
        for row, layers in enumerate(found):
            wanted = EXPECTED[f"{name}/{b}/0"][row, : len(batch[row])]  # the mean: a fresh mix
            np.testing.assert_allclose(layers.mean(0), wanted, rtol=0, atol=1e-5)


def test_a_reset_forgets_the_carried_state(make):
    elmo = make(True, {})
    first = elmo(batch_to_ids(BATCHES[0]))["elmo_representations"][0]
    elmo.reset_states()
    again = elmo(batch_to_ids(BATCHES[0]))["elmo_representations"][0]
    assert torch.equal(first, again)
