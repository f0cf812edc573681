"""Tables of float16 rows that are computed once: each is on disk as a whole or not at all.

    FOLDER/<key>/layers.npy     (rows, …) float16
    FOLDER/<key>/meta.json      shape, bytes, seconds it took, and what the caller adds

The key is a hash of the model and of what it reads, so a cache is never used for another model or
other text. While one process computes a table, others that need it wait.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relmo.errors import WeightError
from relmo.files import explain, locked, make_folder, read_json, replacing_folder, write_json

Table = NDArray[np.float16]
TABLE, META = "layers.npy", "meta.json"
ADVICE = "free some space, or choose another folder"


def table_key(model: str, items: Iterable[Any]) -> str:
    """The key of a table: a hash of the model and of the items, any JSON, that it reads."""
    digest = hashlib.sha256(model.encode())
    for item in items:
        digest.update(json.dumps(item).encode() + b"\n")  # escapes any newline inside an item
    return digest.hexdigest()[:24]


def cached_table(
    folder: Path,
    key: str,
    shape: tuple[int, ...],
    compute: Callable[[], Iterable[Table]],
    facts: Mapping[str, Any],
) -> tuple[Table, dict[str, Any]]:
    """The table of a key, memory-mapped, and its meta.json; computed if it is missing or damaged.

    Args:
        folder: of all tables.
        key: of this one, from `table_key`.
        shape: of the table.
        compute: its rows in order, in blocks (n, *shape[1:]).
        facts: for meta.json.
    """
    place = folder / key
    stored = max(1, shape[0]), *shape[1:]  # an empty file cannot be memory-mapped
    if not _is_whole(place, stored):
        make_folder(folder)
        with explain(folder, ADVICE), locked(place.with_name(f"{key}.lock")):
            if not _is_whole(place, stored):  # another process may have computed it meanwhile
                padding = np.zeros((stored[0] - shape[0], *shape[1:]), np.float16)
                _write(place, stored, chain(compute(), [padding]), facts)
    table: Table = np.load(place / TABLE, mmap_mode="c")  # writable, as torch wants it; not saved
    return table[: shape[0]], read_json(place / META)


def _is_whole(place: Path, shape: tuple[int, ...]) -> bool:
    try:
        meta = read_json(place / META)
        size = (place / TABLE).stat().st_size
    except (OSError, WeightError):
        return False
    return meta.get("bytes") == size and meta.get("shape") == list(shape)


def _write(
    place: Path, shape: tuple[int, ...], blocks: Iterable[Table], facts: Mapping[str, Any]
) -> None:
    started = time.monotonic()
    header = {"descr": "<f2", "fortran_order": False, "shape": shape}
    with replacing_folder(place, ADVICE) as temporary:
        with (temporary / TABLE).open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            begin = file.tell()
            for block in blocks:
                file.write(block.astype("<f2").tobytes())
            size = file.tell()
            assert size - begin == 2 * int(np.prod(shape)), "rows do not fit the shape"
        seconds = round(time.monotonic() - started, 2)
        write_json(temporary / META, {"shape": shape, "bytes": size, "seconds": seconds, **facts})
