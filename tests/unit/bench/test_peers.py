"""Peers: found, missing, broken. A stand-in peer is a script that speaks the same lines of JSON."""

import sys
from contextlib import ExitStack

import numpy as np
import pytest

from relmo.bench import peers
from relmo.bench.cases import Case
from relmo.bench.peer_group import PeerGroup
from relmo.bench.peers import max_difference, parse_peer
from relmo.bench.speed import Book
from relmo.errors import ConfigError

CASE = Case("batch of 1", [[["a", "b"]]])
WITH_PYTHON = f"allennlp={sys.executable}"


@pytest.fixture
def model(tiny, tmp_path):
    tiny.save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    """Let a script of the test be the peer."""

    def become(script: str) -> None:
        (tmp_path / "peer.py").write_text(script)
        monkeypatch.setattr(peers, "__file__", str(tmp_path / "peers.py"))
        monkeypatch.setitem(peers.SCRIPTS, "allennlp", "peer.py")

    return become


GOOD = """
import json, os, sys
assert {"options.json", "weights.hdf5"} <= set(os.listdir(sys.argv[1])) and sys.argv[2] == "1"
def answer(**values): print(json.dumps(values), flush=True)
answer(versions={"peer": "1"}, load_seconds=0.5)
for line in sys.stdin:
    asked = json.loads(line)
    if "calls" in asked: answer(seconds=2.0)
    elif "vectors" in asked: answer(vectors=[[[[0.0] * 16] * len(s)] * 3 for s in asked["vectors"]])
    else: answer(peak_mb=7)
"""


def test_a_peer_is_measured_and_compared(tiny, model, stand_in):
    stand_in(GOOD)
    book = Book()
    with ExitStack() as stack:
        group = PeerGroup([WITH_PYTHON], model, stack)
        group.compare(tiny, [["a", "b"], ["c"]])
        group.measure(book, CASE, keep=True)
        group.finish(book)
    facts = group.facts["allennlp"]
    assert (facts["load_seconds"], facts["peak_mb"], facts["compared_in"]) == (0.5, 7, "float32")
    assert facts["max_difference"] == max(np.abs(v).max() for v in tiny.embed([["a", "b"], ["c"]]))
    (series,) = book.of(peers=True)
    assert series.rates() == [1.0]


def test_a_python_that_is_not_there_is_reported(model):
    with ExitStack() as stack:
        group = PeerGroup(["allennlp=/no/such/python"], model, stack)
    assert "cannot be run: No such file" in group.facts["allennlp"]["missing"]


def test_an_environment_without_the_peer_is_reported_by_its_last_words(model, stand_in):
    stand_in("import a_module_that_is_not_installed")
    with ExitStack() as stack:
        group = PeerGroup([WITH_PYTHON], model, stack)
    assert "No module named 'a_module" in group.facts["allennlp"]["missing"]


def test_a_peer_that_breaks_on_the_way_has_no_figures(tiny, model, stand_in):
    stand_in(GOOD.replace("answer(seconds=2.0)", "sys.exit('out of memory')"))
    book = Book()
    with ExitStack() as stack:
        group = PeerGroup([WITH_PYTHON], model, stack)
        group.measure(book, CASE, keep=True)
        group.measure(book, CASE, keep=True)
        group.finish(book)
    assert "out of memory" in group.facts["allennlp"]["missing"]
    assert book.of(peers=True) == []


@pytest.mark.parametrize("text", ["allennlp", "allennlp=", "bert=python", "=python"])
def test_a_peer_that_cannot_be_understood_is_the_callers_mistake(text):
    with pytest.raises(ConfigError, match="NAME=PYTHON is needed"):
        parse_peer(text)


def test_the_largest_difference_counts():
    a, b = np.zeros((2, 3), np.float32), np.zeros((1, 3), np.float32)
    assert max_difference([a, b], [a, b + 2]) == 2.0
    assert max_difference([], []) == 0.0
