"""Tiny models that every test may share."""

import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from relmo import CharCnnConfig, Elmo, ElmoConfig, LstmConfig
from relmo.text.lexicon import Lexicon
from tests.support.official import write_official

torch.set_num_threads(1)  # tiny models: a second thread only waits, above all on a busy machine
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in the background
CONFORMANCE = Path(__file__).parents[2] / "shared" / "conformance"


def pytest_runtest_setup(item):
    """A test marked gpu is skipped where there is none."""
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


def tiny_config(**changes) -> ElmoConfig:
    cnn = CharCnnConfig(
        width=8, character_width=4, filters=((1, 4), (2, 6), (3, 8)), num_highways=1
    )
    lstm = LstmConfig(cell_width=24, output_width=8)
    return ElmoConfig(**{"tokens": cnn, "lstm": lstm, "name": "tiny", **changes})


@pytest.fixture(autouse=True, scope="session")
def on_the_cpu():
    """Models load to the CPU, also where there is a GPU: numbers are compared to the bit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("relmo.elmo._best_device", lambda: torch.device("cpu"))
        yield


@pytest.fixture(scope="session")
def tiny() -> Elmo:
    """A model of 24 cells and width 16 with random weights; tests do not change it."""
    return Elmo.untrained(tiny_config(), seed=1)


@pytest.fixture(scope="session")
def tiny_lm() -> Elmo:
    """The same model with a softmax of random weights; tests do not change it."""
    words = ["<S>", "</S>", "<UNK>", "the", ".", "Mira", "Sol", "sings", "sing", "runs", "bank"]
    generator = torch.Generator().manual_seed(0)
    head = {
        "weight": torch.randn(len(words), 8, generator=generator),
        "bias": torch.randn(len(words), generator=generator),
    }
    counts = np.arange(len(words), 0, -1)
    bilm = Elmo.untrained(tiny_config(), seed=1).bilm
    return Elmo(bilm, Lexicon(words, counts), lambda: head)


@pytest.fixture
def official(tmp_path: Path) -> Path:
    """A folder with options.json and weights.hdf5 that relmo did not write."""
    return write_official(tmp_path / "official")
