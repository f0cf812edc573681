"""What a probe gives back, and what its record says of files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relmo.files import sha256


@dataclass(frozen=True, slots=True)
class Outcome:
    """Scores of a probe and what they were made from."""

    data: dict[str, Any]
    """Names, sizes and checksums of the files."""
    settings: dict[str, Any]
    """What was fixed, and what was chosen on the parts that are there for choosing."""
    results: dict[str, float]
    """<part>_<metric>_<reading> -> percent."""


def data_facts(
    folder: Path, counts: Mapping[str, Mapping[str, int]], files: Iterable[Path]
) -> dict[str, Any]:
    """What a record says of data: the folder's name, how much there is, names and checksums."""
    return {
        "name": folder.resolve().name,
        **counts,
        "files": {path.name: {"sha256": sha256(path)} for path in files},
    }
