"""HDF5 as AllenNLP's readers expect it."""

import json

import h5py
import numpy as np
import pytest

from relmo.vectors import hdf5
from relmo.vectors.formats import Record, VectorFileInfo


def write(path, texts):
    vectors = np.ones((3, 1, 2), np.float32)
    records = [Record(line, text, ["x"], vectors) for line, text in enumerate(texts)]
    hdf5.write_hdf5(records, VectorFileInfo({"model": "m"}, [0, 1, 2], len(texts)), path)
    return h5py.File(path)


def index_of(file):
    dataset = file["sentence_to_index"]
    assert dataset.shape == (1,)
    assert h5py.check_string_dtype(dataset.dtype).length is None
    return json.loads(dataset[0])


def test_datasets_are_named_by_line(tmp_path):
    with write(tmp_path / "out.h5", ["a", "b"]) as file:
        assert set(file) == {"0", "1", "sentence_to_index"}
        assert file["1"].dtype == np.float32


def test_sentence_to_index_maps_the_stripped_line_to_its_key(tmp_path):
    with write(tmp_path / "out.h5", ["  The bank .\n", "Én 🙂", "\ud800", "a\0b"]) as file:
        assert index_of(file) == {"The bank .": "0", "Én 🙂": "1", "\ud800": "2", "a\0b": "3"}


def test_of_equal_lines_the_last_is_named(tmp_path):
    with write(tmp_path / "out.h5", ["same", "other", "same"]) as file:
        assert index_of(file) == {"same": "2", "other": "1"}


def test_the_index_is_left_out_beyond_its_limit_and_the_file_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5, "INDEX_LIMIT", 50)
    with write(tmp_path / "out.h5", ["a long line", "another long line", "and one more"]) as file:
        assert set(file) == {"0", "1", "2"}
        assert "left out" in file.attrs["sentence_to_index"]


def test_the_file_says_what_made_it(tmp_path):
    with write(tmp_path / "out.h5", ["a"]) as file:
        assert json.loads(file.attrs["fingerprint"]) == {"model": "m"}
        assert list(file.attrs["layers"]) == [0, 1, 2]
        assert file.attrs["num_lines"] == 1


def test_old_libraries_can_read_the_file(tmp_path):
    with write(tmp_path / "out.h5", ["a"]):
        pass
    version_of_superblock = (tmp_path / "out.h5").read_bytes()[8]
    assert version_of_superblock == 0  # HDF5 1.0 to today


def test_a_failure_of_the_disk_is_reported_in_the_systems_words(tmp_path, small_disk):
    with small_disk(1000), pytest.raises(OSError, match="File too large"):
        write(tmp_path / "out.h5", ["a"] * 100)
