"""What the tests of this room share: odd records, and the formats read back by their own tools."""

import json
from contextlib import contextmanager

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest

from relmo.vectors.formats import Record

ODD_TOKENS = ["🙂", "/", "a\0b", "\ud800", "\ud83d", "\ude00", "\"'\\", "\u2028", "", "naïve"]


def _make_records(num_lines=6, num_layers=3, dtype="float32", width=4, seed=0):
    """Lines of 0, 1, 2, … tokens from odd text; (T, width) if num_layers is None."""
    rng = np.random.default_rng(seed)
    for line in range(num_lines):
        tokens = [ODD_TOKENS[i % len(ODD_TOKENS)] for i in range(line, line + line % 5)]
        shape = (len(tokens), width) if num_layers is None else (num_layers, len(tokens), width)
        vectors = rng.standard_normal(shape).astype(dtype)
        yield Record(line, f" {line} " + " ".join(tokens), tokens, vectors)


def _read_hdf5(path):
    with h5py.File(path) as file:
        return {int(key): file[key][()] for key in file if key != "sentence_to_index"}


def _read_npz(path):
    with np.load(path, allow_pickle=False) as arrays:
        return {int(key): arrays[key] for key in arrays}


def _read_jsonl(path):
    objects = map(json.loads, path.read_text("utf-8").splitlines())
    return {each["line"]: np.array(each["layers"]) for each in objects}


def _read_parquet(path):
    found = {}
    for row in pq.read_table(path).to_pylist():
        found.setdefault(row["line"], []).append((row["layer"], row["position"], row["vector"]))
    return {line: np.array([vector for *_, vector in sorted(rows)]) for line, rows in found.items()}


READERS = {
    ".h5": _read_hdf5,
    ".hdf5": _read_hdf5,
    ".npz": _read_npz,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}


@contextmanager
def _small_disk(num_bytes):
    """No file may grow beyond so many bytes meanwhile."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def make_records():
    return _make_records


@pytest.fixture
def small_disk():
    return _small_disk


@pytest.fixture
def read_back():
    """Read a file of vectors: {line: array as stored}."""
    return lambda path: READERS[path.suffix](path)


@pytest.fixture
def assert_holds(read_back):
    """The file holds exactly these records, bit for bit; Parquet cannot show empty lines."""

    def check(path, records):
        found = read_back(path)
        wanted = {r.line: r for r in records if r.tokens or path.suffix != ".parquet"}
        assert found.keys() == wanted.keys()
        for line, record in wanted.items():
            stored = found[line].astype(record.vectors.dtype).reshape(record.vectors.shape)
            assert stored.tobytes() == record.vectors.tobytes(), f"line {line}"

    return check
