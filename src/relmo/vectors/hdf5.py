"""HDF5 as bilm-tf and AllenNLP wrote it: dataset `str(line)` -> (layers, T, D) or (T, D).

The dataset `sentence_to_index` contains a JSON object {stripped line: str(line)}, as AllenNLP's
`embed_file` wrote it; for equal lines, the last one. It must be built in memory, so it is omitted
if the texts exceed INDEX_LIMIT, and the file attribute `sentence_to_index` then says so.

HDF5 1.8 and newer can read these files. The newer group layout was measured: files are 15 % smaller
for tiny records, but writing is slower.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

import h5py

from relmo.errors import OutputError
from relmo.vectors.formats import Record, VectorFileInfo

INDEX_LIMIT = 64 * 2**20
"""Maximum size of `sentence_to_index` in bytes of JSON."""

_TIMELESS = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
_TIMELESS.set_obj_track_times(False)  # the same vectors give the same bytes


def write_hdf5(records: Iterable[Record], info: VectorFileInfo, path: Path) -> None:
    """Write one dataset per line, then `sentence_to_index`."""
    lines: dict[str, str] = {}
    index_bytes = 0
    try:
        with _create(path) as file:
            file.attrs["fingerprint"] = json.dumps(info.fingerprint)
            file.attrs["layers"] = list(info.layer_labels)
            file.attrs["num_lines"] = info.num_lines
            for record in records:
                _write_dataset(file, record)
                if index_bytes <= INDEX_LIMIT:
                    text, line = record.text.strip(), str(record.line)
                    index_bytes += len(json.dumps(text)) + len(json.dumps(line)) + 4
                    lines[text] = line
            if index_bytes <= INDEX_LIMIT:
                index = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
                index[0] = json.dumps(lines)
            else:
                file.attrs["sentence_to_index"] = f"left out: it would exceed {INDEX_LIMIT} bytes"
    except OutputError:  # raised while reading records: the journal is damaged
        raise
    except (OSError, RuntimeError) as error:
        raise _plain(error) from error


def stored_run(path: Path) -> list[object]:
    """The fingerprint, number of lines and dtype of a file."""
    with h5py.File(path, "r") as file:
        lines = int(file.attrs["num_lines"])
        dtype = file[str(lines - 1)].dtype.name  # the last line has a record
        return [json.loads(file.attrs["fingerprint"]), lines, dtype]


def _create(path: Path) -> h5py.File:
    """Create a file in the oldest layout, without the buffer for small datasets.

    That buffer is flushed when a dataset is closed, where h5py can only print a disk error, not
    raise it: vectors would be missing from a file that looks complete.
    """
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_EARLIEST, h5py.h5f.LIBVER_V18)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    access.set_sieve_buf_size(0)
    return h5py.File(h5py.h5f.create(os.fsencode(path), h5py.h5f.ACC_TRUNC, fapl=access))


def _write_dataset(file: h5py.File, record: Record) -> None:
    """Do what `file[str(line)] = vectors` does, with low-level calls in half the time."""
    vectors, name = record.vectors, str(record.line).encode()
    kind, space = h5py.h5t.py_create(vectors.dtype), h5py.h5s.create_simple(vectors.shape)
    dataset = h5py.h5d.create(file.id, name, kind, space, _TIMELESS)
    if vectors.size:
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, vectors)


def _plain(error: OSError | RuntimeError) -> OSError:
    """The system error inside the library's long message."""
    if isinstance(error, OSError) and error.strerror:
        return OSError(error.errno, error.strerror)
    if found := re.search(r"errno = (\d+)", str(error)):
        return OSError(int(found[1]), os.strerror(int(found[1])))
    return OSError(str(error))
