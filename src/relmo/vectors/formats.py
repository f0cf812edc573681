"""The formats vectors are kept in, and how one is chosen: by the suffix of the output.

To add one, write a module with the function that `Format` asks for and name it in FORMATS. Its
heavy imports stay at its own top: a module is loaded only when its suffix is asked for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from relmo.errors import ConfigError, need_extra

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from relmo.vectors.record import Record

FORMATS = {
    ".h5": "relmo.vectors.hdf5",
    ".hdf5": "relmo.vectors.hdf5",
    ".npz": "relmo.vectors.npz",
    ".parquet": "relmo.vectors.parquet",
    ".jsonl": "relmo.vectors.jsonl",
}
"""Suffix -> module."""

EXTRAS = {".parquet": "parquet"}
"""Suffix -> the optional dependency it needs."""


@dataclass(frozen=True, slots=True)
class About:
    """What a file of vectors says about itself, where its format has a place for that."""

    fingerprint: Mapping[str, object]
    """What made the vectors: model, layers, tokenizer and the like, as JSON can hold it."""
    layer_labels: Sequence[int]
    """The number of each layer of a record, in order; -1 is the mean of all layers."""
    num_lines: int
    """Lines of the input up to the last record. Parquet holds no row for an empty line."""

    @property
    def fingerprint_json(self) -> str:
        """The fingerprint as text."""
        return json.dumps(self.fingerprint)


class Format(Protocol):
    """What a format's module offers."""

    def write(self, records: Iterable[Record], about: About, path: Path) -> None:
        """Write a whole file at path, holding a bounded part of the records in memory.

        Records come in line order. Errors of the disk leave as OSError; the caller deletes what
        was half written.
        """


def find_format(path: Path) -> Format:
    """The format for this path, ready to write.

    Raises:
        ConfigError: The suffix is not known.
        MissingExtra: The format needs a package that is not installed.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ConfigError(
            f"{path}: no format for the suffix {suffix!r}; the output must end in "
            f"one of {', '.join(FORMATS)}"
        )
    if suffix in EXTRAS:
        need_extra(EXTRAS[suffix])
    return cast("Format", import_module(FORMATS[suffix]))
