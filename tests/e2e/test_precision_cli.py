"""`relmo embed --precision`: from a line of text to the vectors that such a model gives."""

import json
from pathlib import Path

import numpy as np
import pytest

from relmo import Elmo
from tests.conftest import tiny_config

LINES = b"The bank raised rates .\n\nWe sat on the bank of the river .\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    Elmo.untrained(tiny_config(), seed=1).save_pretrained(folder)
    return folder


def vectors_of(path: Path) -> list[np.ndarray]:
    with np.load(path) as file:
        return [file[str(line)] for line in range(3)]


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_vectors_are_those_of_the_chosen_precision(run, model, tmp_path, precision):
    out = tmp_path / "out.npz"
    found = run(
        "embed", "-", "-o", out, "--model", model, "--precision", precision, "--json", stdin=LINES
    )
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["tokens"] == 14
    elmo = Elmo.from_pretrained(model, precision=precision)
    wanted = elmo.embed([line.split() for line in LINES.decode().splitlines()])
    for one, two in zip(vectors_of(out), wanted, strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-5)


def test_precisions_give_different_vectors(run, model, tmp_path):
    found = {}
    for precision in ("float32", "int8"):
        out = tmp_path / f"{precision}.npz"
        run("embed", "-", "-o", out, "--model", model, "--precision", precision, stdin=LINES)
        found[precision] = vectors_of(out)[0]
    assert 1e-4 < np.abs(found["float32"][1:] - found["int8"][1:]).max() < 0.5
    np.testing.assert_array_equal(found["float32"][0], found["int8"][0])  # the token layer


def test_an_unknown_precision_is_a_wrong_call(run, model, tmp_path):
    out = tmp_path / "out.npz"
    found = run("embed", "-", "-o", out, "--model", model, "--precision", "int4", stdin=LINES)
    assert found.returncode == 2
    assert b"int4" in found.stderr
    assert not out.exists()
