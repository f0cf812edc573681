"""Tables of float16 rows that are computed once: each is on disk as a whole or not at all.

    FOLDER/<key>/layers.npy     (rows, …) float16
    FOLDER/<key>/meta.json      shape, bytes, sha256, seconds it took, what the caller adds, and a
                                checksum of these

The key is a hash of the model and of what it reads, so a cache is never used for another model or
other text. A table whose checksum does not match is computed again; verifying it reads it once,
which also brings it into memory. While one process computes a table, others that need it wait.
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
from relmo.files import (
    SEAL,
    checksum,
    explain,
    locked,
    make_folder,
    read_json,
    replacing_folder,
    sha256,
    write_json,
)

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
        if meta.get("bytes") != size or meta.get("shape") != list(shape):
            return False
        if not meta.keys() & {SEAL, "sha256"}:  # of an earlier release
            return True
        return meta.get(SEAL) == checksum(meta) and meta["sha256"] == sha256(place / TABLE)
    except (OSError, KeyError, WeightError):
        return False


def _write(
    place: Path, shape: tuple[int, ...], blocks: Iterable[Table], facts: Mapping[str, Any]
) -> None:
    started, digest = time.monotonic(), hashlib.sha256()
    header = {"descr": "<f2", "fortran_order": False, "shape": shape}
    with replacing_folder(place, ADVICE) as temporary:
        with (temporary / TABLE).open("wb+") as file:
            np.lib.format.write_array_header_1_0(file, header)
            begin = file.tell()
            file.seek(0)
            digest.update(file.read(begin))
            for block in blocks:
                if np.isinf(block).any():
                    raise WeightError(
                        "the model gives values beyond ±65,504, the range of float16, in which its "
                        "layers are kept; is it damaged?"
                    )
                content = block.astype("<f2").tobytes()
                digest.update(content)
                file.write(content)
            size = file.tell()
            assert size - begin == 2 * int(np.prod(shape)), "rows do not fit the shape"
        seconds = round(time.monotonic() - started, 2)
        about = {"shape": list(shape), "bytes": size, "sha256": digest.hexdigest()}
        meta = {**about, "seconds": seconds, **facts}
        write_json(temporary / META, {**meta, SEAL: checksum(meta)})
