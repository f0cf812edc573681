"""HDF5 as bilm-tf and AllenNLP wrote it: dataset `str(line)` -> (layers, T, D) or (T, D).

The dataset `sentence_to_index` holds a JSON object {stripped line: str(line)}, as AllenNLP's
`embed_file` wrote it; of equal lines the last is named. It must be built in memory, so it is left
out once the texts exceed INDEX_LIMIT, and the file attribute `sentence_to_index` then says so.

Any HDF5 library from 1.8 on reads these files. The newer layout of groups was measured: it makes
files 15 % smaller for tiny records, and writes slower.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import h5py

from relmo.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from relmo.vectors.formats import About
    from relmo.vectors.record import Record

INDEX_LIMIT = 64 * 2**20
"""Bytes of JSON that `sentence_to_index` may take."""

_TIMELESS = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
_TIMELESS.set_obj_track_times(False)  # the same vectors give the same bytes


def write(records: Iterable[Record], about: About, path: Path) -> None:
    """Write one dataset per line, then `sentence_to_index`."""
    index = _SentenceIndex()
    try:
        with _create(path) as file:
            file.attrs["fingerprint"] = about.fingerprint_json
            file.attrs["layers"] = list(about.layer_labels)
            file.attrs["num_lines"] = about.num_lines
            for record in records:
                _write_dataset(file, record)
                index.add(record)
            index.write(file)
    except OutputError:  # from the records: the journal is damaged
        raise
    except (OSError, RuntimeError) as error:
        raise _plain(error) from error


class _SentenceIndex:
    """Text -> line, for as long as it stays small."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}
        self._bytes = 0

    def add(self, record: Record) -> None:
        """Note a line, unless the limit is reached."""
        if self._bytes > INDEX_LIMIT:
            return
        text, line = record.text.strip(), str(record.line)
        self._bytes += len(json.dumps(text)) + len(json.dumps(line)) + 4
        self._lines[text] = line

    def write(self, file: h5py.File) -> None:
        """Write the dataset, or the attribute that says why there is none."""
        if self._bytes > INDEX_LIMIT:
            file.attrs["sentence_to_index"] = f"left out: it would exceed {INDEX_LIMIT} bytes"
            return
        dataset = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
        dataset[0] = json.dumps(self._lines)


def _create(path: Path) -> h5py.File:
    """A new file in the oldest layout, without the buffer that holds back small datasets.

    That buffer is written when a dataset is closed, where h5py can only print an error of the
    disk, not raise it: vectors would be missing from a file that looks whole.
    """
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_EARLIEST, h5py.h5f.LIBVER_V18)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    access.set_sieve_buf_size(0)
    return h5py.File(h5py.h5f.create(os.fsencode(path), h5py.h5f.ACC_TRUNC, fapl=access))


def _write_dataset(file: h5py.File, record: Record) -> None:
    """What `file[str(line)] = vectors` does, by the low-level calls: it takes half the time."""
    vectors = record.vectors
    kind = h5py.h5t.py_create(vectors.dtype)
    space = h5py.h5s.create_simple(vectors.shape)
    dataset = h5py.h5d.create(file.id, str(record.line).encode(), kind, space, _TIMELESS)
    if vectors.size:
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, vectors)


def _plain(error: OSError | RuntimeError) -> OSError:
    """The system's error inside the library's long report of it."""
    if isinstance(error, OSError) and error.strerror:
        return OSError(error.errno, error.strerror)
    found = re.search(r"errno = (\d+)", str(error))
    if found is None:
        return OSError(str(error))
    return OSError(int(found[1]), os.strerror(int(found[1])))
