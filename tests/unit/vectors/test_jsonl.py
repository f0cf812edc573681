"""JSON lines, and numbers with as few digits as will do."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relmo.vectors import jsonl
from relmo.vectors.formats import About
from relmo.vectors.record import Record


def lines(path, *records):
    jsonl.write(records, About({}, [0], 1), path)
    return path.read_text("ascii").splitlines()


def test_an_object_holds_line_tokens_and_layers(tmp_path):
    vectors = np.array([[[0.1, -2], [1e-5, 3.5]]], np.float32)
    (line,) = lines(tmp_path / "out.jsonl", Record(3, "a b", ["a", "b"], vectors))
    assert line == '{"line": 3, "tokens": ["a", "b"], "layers": [[[0.1,-2],[1e-05,3.5]]]}'


def test_one_layer_is_a_list_of_one(tmp_path):
    (line,) = lines(tmp_path / "out.jsonl", Record(0, "a", ["a"], np.ones((1, 2), np.float16)))
    assert json.loads(line)["layers"] == [[[1, 1]]]


def test_an_empty_line_keeps_its_layers(tmp_path):
    (line,) = lines(tmp_path / "out.jsonl", Record(0, "", [], np.ones((3, 0, 2), np.float32)))
    assert json.loads(line) == {"line": 0, "tokens": [], "layers": [[], [], []]}


def test_odd_tokens_come_back(tmp_path):
    tokens = ["🙂", "/", "a\0b", "\ud800", '"\\', "\u2028", "\r", ""]
    vectors = np.ones((len(tokens), 1), np.float32)
    (line,) = lines(tmp_path / "out.jsonl", Record(0, "", tokens, vectors))
    assert json.loads(line)["tokens"] == tokens


def test_what_json_lacks_is_written_as_python_reads_it(tmp_path):
    vectors = np.array([[np.nan, np.inf, -np.inf, -0.0]], np.float32)
    (line,) = lines(tmp_path / "out.jsonl", Record(0, "a", ["a"], vectors))
    assert line.endswith("[[[NaN, Infinity, -Infinity, -0.0]]]}")


def test_the_sign_of_zero_is_kept(tmp_path):
    vectors = np.array([[0.0, -0.0]], np.float32)
    (line,) = lines(tmp_path / "out.jsonl", Record(0, "a", ["a"], vectors))
    assert str(json.loads(line)["layers"]) == "[[[0.0, -0.0]]]"


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_digits_are_as_few_as_numpy_finds(dtype):
    rng = np.random.default_rng(0)
    values = (rng.standard_normal(2000) * 10.0 ** rng.integers(-4, 4, 2000)).astype(dtype)
    values = values[np.abs(values) >= np.finfo(dtype).smallest_normal]
    for value, short in zip(values, jsonl.shortest(values), strict=True):
        digits = len(np.format_float_scientific(value, trim="-").split("e")[0].strip("-"))
        assert len(f"{short:.8e}".split("e")[0].strip("-").rstrip("0").rstrip(".")) == digits


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_every_float32_reads_back(bits):
    value = np.array([bits], np.uint32).view(np.float32)
    if np.isfinite(value):
        back = float(f"{jsonl.shortest(value)[0]:.9g}")
        assert np.float32(back) == value


def test_every_float16_reads_back():
    values = np.arange(2**16, dtype=np.uint16).view(np.float16)
    values = values[np.isfinite(values)]
    back = np.array([float(f"{short:.9g}") for short in jsonl.shortest(values)], np.float16)
    assert np.array_equal(back, values)
