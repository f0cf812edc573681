"""Records, what every format must do, and what is special about npz and JSON lines."""

import json
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relmo.errors import ConfigError, MissingExtra, OutputError
from relmo.vectors import parquet
from relmo.vectors.formats import (
    FORMATS,
    Record,
    VectorFileInfo,
    find_format,
    shortest,
    write_jsonl,
    write_npz,
)

SUFFIXES = [".h5", ".npz", ".parquet", ".jsonl"]
every_format = pytest.mark.parametrize("suffix", SUFFIXES)


def write(path, records, labels=(0, 1, 2)):
    records = list(records)
    find_format(path)(records, VectorFileInfo({"model": "é"}, labels, len(records)), path)
    return records


@every_format
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("num_layers", "labels"), [(3, [0, 1, 2]), (None, [2]), (None, [-1])])
def test_vectors_come_back_bit_for_bit(
    suffix, dtype, num_layers, labels, tmp_path, make_records, assert_holds
):
    path = tmp_path / f"out{suffix}"
    records = write(path, make_records(12, num_layers, dtype), labels)
    assert_holds(path, records)


@every_format
def test_no_records_give_a_file_without_vectors(suffix, tmp_path, read_back):
    path = tmp_path / f"out{suffix}"
    write(path, [])
    assert read_back(path) == {}


@every_format
def test_only_empty_lines_give_a_readable_file(suffix, tmp_path, assert_holds):
    path = tmp_path / f"out{suffix}"
    records = [Record(line, "", [], np.zeros((3, 0, 4), np.float32)) for line in range(3)]
    assert_holds(path, write(path, records))


@every_format
def test_lines_may_be_missing(suffix, tmp_path, make_records, assert_holds):
    path = tmp_path / f"out{suffix}"
    assert_holds(path, write(path, [r for r in make_records(12) if r.line not in (0, 7)]))


@every_format
def test_extreme_numbers_come_back(suffix, tmp_path, assert_holds):
    path = tmp_path / f"out{suffix}"
    tiny, huge = np.finfo(np.float32).smallest_subnormal, np.finfo(np.float32).max
    values = [0.0, -0.0, tiny, -tiny, huge, -huge, 1e-14, 1e28, 0.1, 16777216, np.inf, -np.inf]
    vectors = np.array(values, np.float32).reshape(1, 3, 4)
    assert_holds(path, write(path, [Record(0, "a b c", ["a", "b", "c"], vectors)], [0]))


@every_format
def test_the_same_records_give_the_same_bytes(suffix, tmp_path, make_records):
    first, second = tmp_path / f"1{suffix}", tmp_path / f"2{suffix}"
    write(first, make_records())
    write(second, make_records())
    assert first.read_bytes() == second.read_bytes()


@every_format
def test_memory_stays_far_below_the_file(suffix, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_BYTES", 2**16)
    vectors = np.zeros((3, 4, 256), np.float32)
    records = (Record(i, "x", ["x"] * 4, vectors + i) for i in range(100))
    path = tmp_path / f"out{suffix}"
    info = VectorFileInfo({}, [0, 1, 2], 100)
    find_format(path)([], info, path)  # what the format loads once is not counted
    tracemalloc.start()
    find_format(path)(records, info, path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 500_000  # the vectors are 1.2 MB


@every_format
def test_a_capital_suffix_is_the_same_format(suffix):
    assert find_format(Path(f"OUT{suffix.upper()}")) is find_format(Path(f"out{suffix}"))


@every_format
def test_an_unknown_suffix_is_refused_with_the_known_ones(suffix):
    with pytest.raises(ConfigError, match=rf"out{suffix}\.gz.*'\.gz'.*{suffix}"):
        find_format(Path(f"out{suffix}.gz"))
    with pytest.raises(ConfigError, match="unknown suffix ''"):
        find_format(Path("out"))


def test_every_suffix_is_under_test():
    assert {*SUFFIXES, ".hdf5"} == set(FORMATS)


@every_format
def test_a_missing_extra_is_named(suffix, monkeypatch):
    monkeypatch.setattr("relmo.errors.find_spec", lambda name: None)
    if suffix == ".parquet":
        with pytest.raises(MissingExtra, match=r"relmo\[parquet\]"):
            find_format(Path("out.parquet"))
    else:
        find_format(Path(f"out{suffix}"))


# --- records


def test_layers_are_spelled_out():
    assert Record(0, "a", ["a"], np.zeros((1, 4), np.float32)).layers.shape == (1, 1, 4)
    assert Record(0, "a", ["a"], np.zeros((3, 1, 4), np.float32)).layers.shape == (3, 1, 4)


@pytest.mark.parametrize("shape", [(3, 2, 4), (2, 4), (4,), ()])
def test_vectors_must_fit_the_tokens(shape):
    with pytest.raises(OutputError, match=r"line 5: vectors for 1 tokens must have the shape"):
        Record(5, "a", ["a"], np.zeros(shape, np.float32))


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_vectors_must_be_float32_or_float16(dtype):
    with pytest.raises(OutputError, match="must be float32 or float16, got "):
        Record(0, "a", ["a"], np.zeros((1, 4), dtype))


# --- npz


def test_keys_are_line_numbers(tmp_path):
    vectors = np.ones((2, 3), np.float16)
    write_npz(
        [Record(7, "a b", ["a", "b"], vectors)], VectorFileInfo({}, [0], 8), tmp_path / "out.npz"
    )
    with np.load(tmp_path / "out.npz", allow_pickle=False) as arrays:
        assert list(arrays) == ["7"]
        assert arrays["7"].dtype == np.float16


def test_more_lines_than_an_old_zip_can_count(tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 10)
    empty = np.zeros((0, 3), np.float32)
    records = [Record(line, "", [], empty) for line in range(20)]
    write_npz(records, VectorFileInfo({}, [0], 20), tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz", allow_pickle=False) as arrays:
        assert len(arrays) == 20


# --- JSON lines


def json_lines(path, *records):
    write_jsonl(records, VectorFileInfo({}, [0], 1), path)
    return path.read_text("ascii").splitlines()


def test_an_object_holds_line_tokens_and_layers(tmp_path):
    vectors = np.array([[[0.1, -2], [1e-5, 3.5]]], np.float32)
    (line,) = json_lines(tmp_path / "out.jsonl", Record(3, "a b", ["a", "b"], vectors))
    assert line == '{"line": 3, "tokens": ["a", "b"], "layers": [[[0.1,-2],[1e-05,3.5]]]}'


def test_one_layer_is_a_list_of_one(tmp_path):
    (line,) = json_lines(tmp_path / "out.jsonl", Record(0, "a", ["a"], np.ones((1, 2), np.float16)))
    assert json.loads(line)["layers"] == [[[1, 1]]]


def test_an_empty_line_keeps_its_layers(tmp_path):
    (line,) = json_lines(tmp_path / "out.jsonl", Record(0, "", [], np.ones((3, 0, 2), np.float32)))
    assert json.loads(line) == {"line": 0, "tokens": [], "layers": [[], [], []]}


def test_odd_tokens_come_back(tmp_path):
    tokens = ["🙂", "/", "a\0b", "\ud800", '"\\', "\u2028", "\r", ""]
    vectors = np.ones((len(tokens), 1), np.float32)
    (line,) = json_lines(tmp_path / "out.jsonl", Record(0, "", tokens, vectors))
    assert json.loads(line)["tokens"] == tokens


def test_what_json_lacks_is_written_as_python_reads_it(tmp_path):
    vectors = np.array([[np.nan, np.inf, -np.inf, -0.0]], np.float32)
    (line,) = json_lines(tmp_path / "out.jsonl", Record(0, "a", ["a"], vectors))
    assert line.endswith("[[[NaN, Infinity, -Infinity, -0.0]]]}")


def test_the_sign_of_zero_is_kept(tmp_path):
    vectors = np.array([[0.0, -0.0]], np.float32)
    (line,) = json_lines(tmp_path / "out.jsonl", Record(0, "a", ["a"], vectors))
    assert str(json.loads(line)["layers"]) == "[[[0.0, -0.0]]]"


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_digits_are_as_few_as_numpy_finds(dtype):
    rng = np.random.default_rng(0)
    values = (rng.standard_normal(2000) * 10.0 ** rng.integers(-4, 4, 2000)).astype(dtype)
    values = values[np.abs(values) >= np.finfo(dtype).smallest_normal]
    for value, short in zip(values, shortest(values), strict=True):
        digits = len(np.format_float_scientific(value, trim="-").split("e")[0].strip("-"))
        assert len(f"{short:.8e}".split("e")[0].strip("-").rstrip("0").rstrip(".")) == digits


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_every_float32_reads_back(bits):
    value = np.array([bits], np.uint32).view(np.float32)
    if np.isfinite(value):
        back = float(f"{shortest(value)[0]:.9g}")
        assert np.float32(back) == value


def test_every_float16_reads_back():
    values = np.arange(2**16, dtype=np.uint16).view(np.float16)
    values = values[np.isfinite(values)]
    back = np.array([float(f"{short:.9g}") for short in shortest(values)], np.float16)
    assert np.array_equal(back, values)
