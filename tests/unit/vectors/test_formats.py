"""What every format must do: one suite for all of them."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from relmo.errors import ConfigError, MissingExtra
from relmo.vectors import parquet
from relmo.vectors.formats import FORMATS, About, find_format
from relmo.vectors.record import Record

SUFFIXES = [".h5", ".npz", ".parquet", ".jsonl"]
pytestmark = pytest.mark.parametrize("suffix", SUFFIXES)


def write(path, records, labels=(0, 1, 2)):
    records = list(records)
    find_format(path).write(records, About({"model": "é"}, labels, len(records)), path)
    return records


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("num_layers", "labels"), [(3, [0, 1, 2]), (None, [2]), (None, [-1])])
def test_vectors_come_back_bit_for_bit(
    suffix, dtype, num_layers, labels, tmp_path, make_records, assert_holds
):
    path = tmp_path / f"out{suffix}"
    records = write(path, make_records(12, num_layers, dtype), labels)
    assert_holds(path, records)


def test_no_records_give_a_file_without_vectors(suffix, tmp_path, read_back):
    path = tmp_path / f"out{suffix}"
    write(path, [])
    assert read_back(path) == {}


def test_only_empty_lines_give_a_readable_file(suffix, tmp_path, assert_holds):
    path = tmp_path / f"out{suffix}"
    records = [Record(line, "", [], np.zeros((3, 0, 4), np.float32)) for line in range(3)]
    assert_holds(path, write(path, records))


def test_lines_may_be_missing(suffix, tmp_path, make_records, assert_holds):
    path = tmp_path / f"out{suffix}"
    assert_holds(path, write(path, [r for r in make_records(12) if r.line not in (0, 7)]))


def test_extreme_numbers_come_back(suffix, tmp_path, assert_holds):
    path = tmp_path / f"out{suffix}"
    tiny, huge = np.finfo(np.float32).smallest_subnormal, np.finfo(np.float32).max
    values = [0.0, -0.0, tiny, -tiny, huge, -huge, 1e-14, 1e28, 0.1, 16777216, np.inf, -np.inf]
    vectors = np.array(values, np.float32).reshape(1, 3, 4)
    assert_holds(path, write(path, [Record(0, "a b c", ["a", "b", "c"], vectors)], [0]))


def test_the_same_records_give_the_same_bytes(suffix, tmp_path, make_records):
    first, second = tmp_path / f"1{suffix}", tmp_path / f"2{suffix}"
    write(first, make_records())
    write(second, make_records())
    assert first.read_bytes() == second.read_bytes()


def test_memory_stays_far_below_the_file(suffix, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_BYTES", 2**16)
    vectors = np.zeros((3, 4, 256), np.float32)
    records = (Record(i, "x", ["x"] * 4, vectors + i) for i in range(100))
    path = tmp_path / f"out{suffix}"
    about = About({}, [0, 1, 2], 100)
    find_format(path).write([], about, path)  # what the format loads once is not counted
    tracemalloc.start()
    find_format(path).write(records, about, path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 500_000  # the vectors are 1.2 MB


def test_a_capital_suffix_is_the_same_format(suffix):
    assert find_format(Path(f"OUT{suffix.upper()}")) is find_format(Path(f"out{suffix}"))


def test_an_unknown_suffix_is_refused_with_the_known_ones(suffix):
    with pytest.raises(ConfigError, match=rf"out{suffix}\.gz.*'\.gz'.*{suffix}"):
        find_format(Path(f"out{suffix}.gz"))
    with pytest.raises(ConfigError, match="suffix ''"):
        find_format(Path("out"))


def test_every_suffix_is_under_test(suffix):
    assert {*SUFFIXES, ".hdf5"} == set(FORMATS)


def test_a_missing_extra_is_named(suffix, monkeypatch):
    monkeypatch.setattr("relmo.errors.find_spec", lambda name: None)
    if suffix == ".parquet":
        with pytest.raises(MissingExtra, match=r"relmo\[parquet\]"):
            find_format(Path("out.parquet"))
    else:
        find_format(Path(f"out{suffix}"))
