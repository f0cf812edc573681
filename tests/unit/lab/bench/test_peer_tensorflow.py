"""What the TensorFlow peer asks of its libraries: stand-ins for them write it down."""

import json
import sys

import numpy as np
import pytest

from relmo.lab.bench.cases import BATCHES, Case
from relmo.lab.bench.peers import Peer

TENSORFLOW = """
import json, os
from types import SimpleNamespace as Space

__version__ = "2"
STATE = Space(name="bilm/Variable_1:0", initializer="a state")
WEIGHT = Space(name="bilm/kernel:0", initializer="a weight")

def write(*said):
    with open(os.environ["SAID"], "a") as file:
        file.write(json.dumps(said) + "\\n")

class Session:
    def __init__(self, config):
        write("session", config)
    def run(self, wanted, fed=None):
        write("run", wanted)
        return fed["ids"] if fed else None

compat = Space(v1=Space(
    ConfigProto=dict,
    Session=Session,
    global_variables=lambda: [WEIGHT, STATE],
    global_variables_initializer=lambda: "all variables",
))
"""
SIMPLE_ELMO = """
import numpy as np
from tensorflow import write

class ElmoModel:
    sentence_character_ids = "ids"
    sentence_embeddings_op = {"lm_embeddings": "layers"}
    def load(self, folder, max_batch_size):
        write("load", folder, max_batch_size)
        self.batcher = self
    def batch_sentences(self, sentences):
        shape = len(sentences), 3, max(map(len, sentences)), 4
        return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
"""


@pytest.fixture
def said(tmp_path, monkeypatch):
    """The peer with stand-ins: what they were told is read by calling this."""
    files = {"tensorflow.py": TENSORFLOW, "simple_elmo.py": SIMPLE_ELMO}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    facts = tmp_path / "simple_elmo-0.dist-info" / "METADATA"
    facts.parent.mkdir()
    facts.write_text("Metadata-Version: 2.1\nName: simple-elmo\nVersion: 0\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SAID", str(tmp_path / "said"))
    return lambda: [json.loads(line) for line in (tmp_path / "said").read_text().splitlines()]


def test_one_session_with_the_wanted_threads_serves_all_calls(said, tmp_path):
    peer = Peer("tensorflow", sys.executable, tmp_path, 2)
    peer.seconds(Case("batch of 1", [[["a"]], [["b", "c"]]]))
    peer.close()
    load, session, *runs = said()
    assert peer.facts["versions"] == {"simple-elmo": "0", "tensorflow": "2"}
    assert load == ["load", str(tmp_path), max(BATCHES)]
    assert session[0] == "session"
    assert session[1]["intra_op_parallelism_threads"] == 2
    assert session[1]["inter_op_parallelism_threads"] == 2
    assert session[1]["device_count"] == {"GPU": 0}
    assert runs == [["run", "all variables"], ["run", "layers"], ["run", "layers"]]


def test_vectors_begin_with_cleared_states_and_hold_no_padding(said, tmp_path):
    peer = Peer("tensorflow", sys.executable, tmp_path, 1)
    long, short = peer.vectors([["a", "b"], ["c"]])
    peer.close()
    assert said()[-2:] == [["run", ["a state"]], ["run", "layers"]]
    whole = np.arange(2 * 3 * 2 * 4, dtype=np.float32).reshape(2, 3, 2, 4)
    assert np.array_equal(long, whole[0])
    assert np.array_equal(short, whole[1, :, :1])
