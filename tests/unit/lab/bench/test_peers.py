"""Peers: found, missing, broken. A stand-in peer is a runner of the test's own."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pytest

from relmo.errors import ConfigError, WeightError
from relmo.lab.bench import peers
from relmo.lab.bench.peers import RunnerProcess, measure_fresh, parse_peer, start_peers
from relmo.lab.bench.sentences import BATCHES

WITH_PYTHON = f"allennlp={sys.executable}"


@pytest.fixture
def model(tiny, tmp_path):
    tiny.save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    """Let a class of the test be the runner, whatever the peer's name."""

    def become(runner: str) -> None:
        script, end = peers.PROCESS.read_text().split("\n\nif __name__", 1)
        script += f"\n{runner}\nRUNNERS = dict.fromkeys(RUNNERS, Runner)\n\nif __name__{end}"
        (tmp_path / "process.py").write_text(script)
        monkeypatch.setattr(peers, "PROCESS", tmp_path / "process.py")

    return become


GOOD = """
import os, time
class Runner:
    def __init__(self, threads):
        assert threads == 1
        self.versions = {"peer": "1"}
    def load(self, folder, largest, precision):
        assert {"options.json", "weights.hdf5"} <= set(os.listdir(folder)) and largest == 128
        print("what libraries print does no harm")
    def embed(self, sentences):
        time.sleep(0.01 * len(sentences))
    def vectors(self, sentences):
        return [[[[0.0] * 16] * len(words)] * 3 for words in sentences]
"""


def test_a_peer_is_measured_and_compared(tiny, model, stand_in):
    stand_in(GOOD)
    with ExitStack() as stack:
        (peer,) = start_peers([WITH_PYTHON], model, stack)
        peer.compare(tiny, [["a", "b"], ["c"]])
        assert 0.01 <= peer.seconds([[["a", "b"]]]) < 5
        peer.finish()
    facts = peer.facts
    assert (facts["versions"], facts["compared_in"]) == ({"peer": "1"}, "float32")
    assert 0 <= facts["load_seconds"] < 10
    assert 0 < facts["peak_mb_before_loading"] <= facts["peak_mb"]
    assert facts["max_difference"] == max(np.abs(v).max() for v in tiny.embed([["a", "b"], ["c"]]))


def test_two_peers_load_the_same_model(model, stand_in):
    stand_in(GOOD)
    with ExitStack() as stack:
        found = start_peers([WITH_PYTHON, f"tensorflow={sys.executable}"], model, stack)
        assert [peer.name for peer in found] == ["allennlp", "tensorflow"]
        assert all(peer.seconds([[["a"]]]) for peer in found)


def test_a_python_is_found_from_where_the_command_was_given(model, stand_in, monkeypatch, tmp_path):
    stand_in(GOOD)
    python = tmp_path / "here" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        (peer,) = start_peers([f"allennlp=here{os.sep}python"], model, stack)
    assert "missing" not in peer.facts


def test_a_missing_python_is_reported(tiny, model):
    with ExitStack() as stack:
        (peer,) = start_peers(["allennlp=/no/such/python"], model, stack)
        peer.compare(tiny, [["a"]])
        assert peer.seconds([[["a"]]]) is None
    assert peer.facts == {"missing": "cannot run /no/such/python: No such file or directory"}


def test_an_environment_without_the_peer_is_reported_by_its_last_words(model, stand_in):
    stand_in("import a_module_that_is_not_installed")
    with ExitStack() as stack:
        (peer,) = start_peers([WITH_PYTHON], model, stack)
    assert "No module named 'a_module" in peer.facts["missing"]


def test_a_model_that_peers_cannot_read_is_reported(tmp_path):
    with ExitStack() as stack:
        (peer,) = start_peers([WITH_PYTHON], str(tmp_path / "nothing"), stack)
    assert "peers read the official layout, and no model" in peer.facts["missing"]


def test_a_peer_that_breaks_on_the_way_has_no_figures(model, stand_in):
    fail = r"raise ValueError('out of\n  memory')"
    stand_in(GOOD.replace("time.sleep(0.01 * len(sentences))", fail))
    with ExitStack() as stack:
        (peer,) = start_peers([WITH_PYTHON], model, stack)
        assert "missing" not in peer.facts
        assert peer.seconds([[["a"]]]) is None
        assert peer.seconds([[["a"]]]) is None
        peer.finish()
    assert peer.facts == {"missing": "allennlp exited with 1: ValueError: out of memory"}


def test_a_peer_whose_vectors_are_of_other_words_is_left_out(tiny, model, stand_in):
    stand_in(GOOD.replace("len(words)", "(len(words) + 1)"))
    with ExitStack() as stack:
        (peer,) = start_peers([WITH_PYTHON], model, stack)
        peer.compare(tiny, [["a", "b"]])
    assert "(3, 3, 16)], ours [(3, 2, 16)]" in peer.facts["missing"]


def test_a_model_that_a_fresh_process_cannot_load_is_an_error(tiny):
    with pytest.raises(WeightError, match="cannot measure nothing in int8: relmo exited with 1"):
        measure_fresh(tiny, "nothing", "int8", [["a"]])


@pytest.mark.parametrize("text", ["allennlp", "allennlp=", "bert=python", "=python"])
def test_a_peer_that_cannot_be_understood_is_the_callers_mistake(text):
    with pytest.raises(ConfigError, match="expected NAME=PYTHON"):
        parse_peer(text)


def test_peak_memory_is_that_of_the_process():
    code = f"import runpy; run = runpy.run_path({str(peers.PROCESS)!r}); x = b'x' * 300_000_000"
    command = [sys.executable, "-c", f"{code}; print(run['peak_mb']())"]
    found = subprocess.run(command, capture_output=True, check=True)
    assert 300 <= int(found.stdout) < 400


# What the TensorFlow runner asks of its libraries: stand-ins for them write it down.

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


def test_one_session_with_the_wanted_threads_serves_all_calls(said, tmp_path, monkeypatch):
    monkeypatch.setattr(peers.torch, "get_num_threads", lambda: 2)
    peer = RunnerProcess("tensorflow")
    peer.start(sys.executable, str(tmp_path))
    peer.seconds([[["a"]], [["b", "c"]]])
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
    whole = np.arange(2 * 3 * 2 * 4, dtype=np.float32).reshape(2, 3, 2, 4)
    ours = SimpleNamespace(precision="int8", embed=lambda _: [whole[0], whole[1, :, :1] + 2])
    peer = RunnerProcess("tensorflow")
    peer.start(sys.executable, str(tmp_path))
    peer.compare(ours, [["a", "b"], ["c"]])
    peer.close()
    assert said()[-2:] == [["run", ["a state"]], ["run", "layers"]]
    assert (peer.facts["max_difference"], peer.facts["compared_in"]) == (2.0, "int8")
