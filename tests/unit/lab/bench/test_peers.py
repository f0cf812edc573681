"""Peers: found, missing, broken. A stand-in peer is a module with a `Runner` of the test's own."""

import os
import sys
from contextlib import ExitStack

import numpy as np
import pytest

from relmo.errors import ConfigError
from relmo.lab.bench import peers
from relmo.lab.bench.cases import Case
from relmo.lab.bench.peer_group import PeerGroup
from relmo.lab.bench.peers import max_difference, parse_peer
from relmo.lab.bench.speed import Book

CASE = Case("batch of 1", [[["a", "b"]]])
WITH_PYTHON = f"allennlp={sys.executable}"


@pytest.fixture
def model(tiny, tmp_path):
    tiny.save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    """Let a module of the test be the peer, whatever its name."""

    def become(module: str) -> None:
        (tmp_path / "peer.py").write_text(module)
        for name in peers.MODULES:
            monkeypatch.setitem(peers.MODULES, name, str(tmp_path / "peer.py"))

    return become


GOOD = """
import os, time
class Runner:
    def __init__(self, threads):
        assert threads == 1
        self.versions = {"peer": "1"}
    def load(self, folder, largest):
        assert {"options.json", "weights.hdf5"} <= set(os.listdir(folder)) and largest == 128
        print("what libraries print does no harm")
    def embed(self, sentences):
        time.sleep(0.01 * len(sentences))
    def vectors(self, sentences):
        return [[[[0.0] * 16] * len(words)] * 3 for words in sentences]
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
    assert (facts["versions"], facts["compared_in"]) == ({"peer": "1"}, "float32")
    assert 0 <= facts["load_seconds"] < 10 < facts["peak_mb"]
    assert facts["max_difference"] == max(np.abs(v).max() for v in tiny.embed([["a", "b"], ["c"]]))
    (series,) = book.of(peers=True)
    assert 0 < series.rates()[0] <= 2 / 0.01


def test_two_peers_read_the_same_cases(model, stand_in):
    stand_in(GOOD)
    book = Book()
    with ExitStack() as stack:
        group = PeerGroup([WITH_PYTHON, f"tensorflow={sys.executable}"], model, stack)
        group.measure(book, CASE, keep=True)
        group.finish(book)
    found = [(series.who, series.rounds[0][0]) for series in book.of(peers=True)]
    assert found == [("allennlp", CASE), ("tensorflow", CASE)]


def test_a_python_is_found_from_where_the_command_was_given(model, stand_in, monkeypatch, tmp_path):
    stand_in(GOOD)
    python = tmp_path / "here" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        group = PeerGroup([f"allennlp=here{os.sep}python"], model, stack)
    assert "missing" not in group.facts["allennlp"]


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
    fail = r"raise ValueError('out of\n  memory')"
    stand_in(GOOD.replace("time.sleep(0.01 * len(sentences))", fail))
    book = Book()
    with ExitStack() as stack:
        group = PeerGroup([WITH_PYTHON], model, stack)
        group.measure(book, CASE, keep=True)
        group.measure(book, CASE, keep=True)
        group.finish(book)
    assert "ended with 1: ValueError: out of memory" in group.facts["allennlp"]["missing"]
    assert book.of(peers=True) == []


def test_a_peer_whose_vectors_are_of_other_words_is_left_out(tiny, model, stand_in):
    stand_in(GOOD.replace("len(words)", "(len(words) + 1)"))
    with ExitStack() as stack:
        group = PeerGroup([WITH_PYTHON], model, stack)
        group.compare(tiny, [["a", "b"]])
    assert "(3, 3, 16)], ours [(3, 2, 16)]" in group.facts["allennlp"]["missing"]


@pytest.mark.parametrize("text", ["allennlp", "allennlp=", "bert=python", "=python"])
def test_a_peer_that_cannot_be_understood_is_the_callers_mistake(text):
    with pytest.raises(ConfigError, match="NAME=PYTHON is needed"):
        parse_peer(text)


def test_the_largest_difference_counts():
    a, b = np.zeros((2, 3), np.float32), np.zeros((1, 3), np.float32)
    assert max_difference([a, b], [a, b + 2]) == 2.0
    assert max_difference([], []) == 0.0
