"""Records, and the formats they are written in: `find_format` chooses one by suffix.

npz and JSON lines are here; HDF5 and Parquet have modules of their own, which are imported only if
their suffix is used. To add a format, write a function like `write_npz` and add it to FORMATS.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from relmo.errors import ConfigError, OutputError, need_extra
from relmo.types import VectorDtype

FORMATS = {
    ".h5": "relmo.vectors.hdf5:write_hdf5",
    ".hdf5": "relmo.vectors.hdf5:write_hdf5",
    ".npz": "relmo.vectors.formats:write_npz",
    ".parquet": "relmo.vectors.parquet:write_parquet",
    ".jsonl": "relmo.vectors.formats:write_jsonl",
}
"""Suffix -> module:function."""


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One input line, its tokens and their vectors."""

    line: int
    """The line's number in the input, counted from 0."""
    text: str
    """The line as it was read. It may contain lone surrogates."""
    tokens: Sequence[str]
    """T tokens; T may be 0."""
    vectors: NDArray[np.floating[Any]]
    """(layers, T, D), or (T, D) for a single layer; float32 or float16."""

    def __post_init__(self) -> None:
        shape, dtype = self.vectors.shape, self.vectors.dtype
        if dtype not in (np.float32, np.float16):
            raise OutputError(f"line {self.line}: vectors must be float32 or float16, got {dtype}")
        if len(shape) not in (2, 3) or shape[-2] != len(self.tokens):
            raise OutputError(
                f"line {self.line}: vectors for {len(self.tokens)} tokens must have the shape "
                f"(layers, T, D) or (T, D), got {shape}"
            )

    @property
    def layers(self) -> NDArray[np.floating[Any]]:
        """The vectors with a layer axis: (layers, T, D); a single layer is (1, T, D)."""
        return self.vectors if self.vectors.ndim == 3 else self.vectors[np.newaxis]


@dataclass(frozen=True, slots=True)
class VectorFileInfo:
    """What a vector file says about itself, if its format has a place for that."""

    fingerprint: Mapping[str, object]
    """What the vectors were computed with: model, layers, tokenizer and so on, as JSON."""
    layer_labels: Sequence[int]
    """The number of each layer of a record, in order; -1 is the mean of all, -2 of 0 and 1."""
    num_lines: int
    """Lines of the input up to the last record. Parquet has no rows for an empty line."""
    dtype: VectorDtype = "float32"
    """Of all records."""


WriteVectors = Callable[[Iterable[Record], VectorFileInfo, Path], None]
"""A format: writes a whole file at the path, with a bounded number of records in memory.

Records come in line order. Disk errors are raised as OSError; the caller deletes the partial file.
"""


def find_format(path: Path) -> WriteVectors:
    """The function that writes the format of this path's suffix; errors as in `check_output`."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ConfigError(
            f"{path}: unknown suffix {suffix!r}; the output must end in {', '.join(FORMATS)}"
        )
    if suffix == ".parquet":
        need_extra("parquet")
    module, _, name = FORMATS[suffix].partition(":")
    return cast("WriteVectors", getattr(import_module(module), name))


def is_complete(path: Path, info: VectorFileInfo) -> bool:
    """Whether a file is the output of a run, as far as it tells; npz and JSON lines tell little."""
    try:
        if path.suffix.lower() == ".npz":
            with zipfile.ZipFile(path) as archive:
                return len(archive.namelist()) == info.num_lines
        if path.suffix.lower() == ".jsonl":
            with path.open("rb") as file:
                return sum(1 for _ in file) == info.num_lines
        module = import_module(FORMATS[path.suffix.lower()].partition(":")[0])
        wanted = json.loads(json.dumps([info.fingerprint, info.num_lines, info.dtype]))
        return bool(module.stored_run(path) == wanted)
    except (OSError, ValueError, LookupError, TypeError, zipfile.BadZipFile):
        return False  # of another program, or damaged


LINE_BYTES = {".h5": 600, ".hdf5": 600, ".npz": 250, ".parquet": 20, ".jsonl": 40}
"""Measured: what a line takes in each format besides its vectors, its tokens included."""
PRINTED_BYTES = {2: 6.9, 4: 10.8}
"""Measured: bytes of a number -> characters that JSON takes for it, with its comma."""


def estimate_bytes(path: Path, num_lines: int, num_values: int, dtype: VectorDtype) -> int:
    """About how large an output becomes: so many lines, so many numbers in all their vectors."""
    suffix, size = path.suffix.lower(), np.dtype(dtype).itemsize
    value_bytes = PRINTED_BYTES[size] if suffix == ".jsonl" else size
    return int(num_values * value_bytes + num_lines * LINE_BYTES[suffix])


def write_npz(records: Iterable[Record], info: VectorFileInfo, path: Path) -> None:
    """npz: one array per line under the key `str(line)`, for `numpy.load` without pickle.

    Only one array is in memory at a time. zipfile keeps some 350 bytes per line for the table at
    the end of the archive. npz has no place for what `info` says.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for record in records:
            # A bare ZipInfo has no time of day: the same vectors give the same bytes.
            entry = zipfile.ZipInfo(f"{record.line}.npy")
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, record.vectors, allow_pickle=False)


_DIGITS = {2: (3, 4, 5), 4: (6, 7, 8, 9)}
"""Bytes of a number -> how many digits to try: every decimal of the first length survives being
stored in it, and the last length distinguishes any two numbers."""

_POWERS = 10.0 ** np.arange(23)
"""The powers of ten that float64 represents exactly."""


def write_jsonl(records: Iterable[Record], info: VectorFileInfo, path: Path) -> None:
    """JSON lines: {"line": 0, "tokens": [...], "layers": [[[...]]]}, one object per input line.

    `layers` is always a list of layers, even for one. Numbers have the fewest digits that read back
    as the same float32 (float16); magnitudes below 1e-13 or above 1e27 have as many as are always
    enough. NaN and infinity, which JSON lacks, are written as Python's json does. The format has no
    place for what `info` says.
    """
    with path.open("w", encoding="ascii", newline="\n") as file:
        for record in records:
            tokens = json.dumps(record.tokens)  # ASCII: lone surrogates and odd line ends survive
            layers = _print_array(record.layers)
            file.write(f'{{"line": {record.line}, "tokens": {tokens}, "layers": {layers}}}\n')


def _print_array(layers: NDArray[np.floating[Any]]) -> str:
    """(layers, T, D) as JSON."""
    short = shortest(layers)
    if not np.isfinite(short).all() or np.any(np.signbit(short) & (short == 0)):
        return json.dumps(short.tolist())  # slower; %g would lose the sign of -0.0
    row = f"[{','.join(['%.9g'] * layers.shape[-1])}]"
    printed = (",".join([row % tuple(vector) for vector in layer]) for layer in short.tolist())
    return f"[{','.join([f'[{layer}]' for layer in printed])}]"


def shortest(values: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Each value as the float64 with the fewest decimal digits that rounds to that value.

    Each number of digits is tried on all values at once: scale to an integer with that many digits,
    round, scale back. Within the exact powers of ten both scalings are exact enough that the result
    is the float64 nearest to the decimal, which then prints as that decimal.
    """
    wide = values.astype(np.float64)
    size = np.abs(wide)
    exponent = np.zeros(values.shape, np.int64)
    left = (size >= 1e-13) & (size < 1e27)
    exponent[left] = np.floor(np.log10(size[left]))
    short = wide.copy()
    for digits in _DIGITS[values.dtype.itemsize]:
        places = digits - 1 - exponent
        up, down = _POWERS[np.maximum(places, 0)], _POWERS[np.maximum(-places, 0)]
        rounded = np.rint(wide * up / down) / up * down
        fits = left & (rounded.astype(values.dtype) == values)
        short[fits] = rounded[fits]
        left &= ~fits
    return short
