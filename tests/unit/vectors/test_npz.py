"""npz for numpy.load."""

import zipfile

import numpy as np

from relmo.vectors import npz
from relmo.vectors.formats import About
from relmo.vectors.record import Record


def test_keys_are_line_numbers(tmp_path):
    vectors = np.ones((2, 3), np.float16)
    npz.write([Record(7, "a b", ["a", "b"], vectors)], About({}, [0], 8), tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz", allow_pickle=False) as arrays:
        assert list(arrays) == ["7"]
        assert arrays["7"].dtype == np.float16


def test_more_lines_than_an_old_zip_can_count(tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 10)
    empty = np.zeros((0, 3), np.float32)
    records = [Record(line, "", [], empty) for line in range(20)]
    npz.write(records, About({}, [0], 20), tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz", allow_pickle=False) as arrays:
        assert len(arrays) == 20
