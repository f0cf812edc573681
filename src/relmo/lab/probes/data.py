"""What every probe shares: its inputs, finding its data files, and the result it returns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from relmo.elmo import Elmo
from relmo.errors import ConfigError
from relmo.files import sha256
from relmo.lab.probes.layers import Name, ProbeText, read_layers, read_one, read_static
from relmo.types import Vectors
from relmo.vectors.table_cache import Table

COMPRESSIONS = ("", ".gz", ".xz", ".zst")


@dataclass(frozen=True, slots=True)
class ProbeInputs:
    """What to probe, and on which data."""

    elmo: Elmo
    data: Path
    """Folder with the probe's files, at any depth unless the probe says otherwise."""
    vectors: Path | None = None
    """File of static vectors to probe beside the layers."""
    cache: Path | None = None
    """Folder in which the layers of the data are kept for the next run."""
    seed: int = 0
    """For what is random; most probes are not."""

    def tables(self, texts: Mapping[Name, ProbeText]) -> dict[Name, Table]:
        """All layers of each span of each text."""
        return {name: read_layers(self.elmo, *text, self.cache) for name, text in texts.items()}

    def static(
        self, texts: Mapping[Name, ProbeText], tables: Mapping[Name, Table]
    ) -> dict[Name, Vectors]:
        """Static vectors of each span: from the file, else layer 0, which knows no context."""
        if self.vectors is not None:
            return read_static(self.vectors, texts)
        return {name: read_one(table, "layer_0") for name, table in tables.items()}

    def describe(
        self, counts: Mapping[Any, Mapping[str, int]], files: Iterable[Path]
    ) -> dict[str, Any]:
        """The data of a record: the folder's name, counts per part, checksums of all files."""
        used = [*files, *([] if self.vectors is None else [self.vectors])]
        checksums = {path.name: {"sha256": sha256(path)} for path in used}
        return {"name": self.data.resolve().name, **counts, "files": checksums}


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Scores of a probe and what they were computed from."""

    data: dict[str, Any]
    """Names, sizes and checksums of the data files."""
    settings: dict[str, Any]
    """Fixed settings, and those chosen on training or development data."""
    scores: dict[str, float]
    """PART_METRIC_READING -> percent."""


def find_files(folder: Path, pattern: str) -> list[Path]:
    """All files at or below a folder whose name matches, compressed or not, sorted by path."""
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder; give the folder with the data files")
    seen: set[Path] = set()
    found: list[Path] = []
    for root, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        if (real := Path(root).resolve()) in seen:
            folders.clear()  # links may form a cycle: visit each folder once
            continue
        seen.add(real)
        found += [
            Path(root, name)
            for name in names
            if any(fnmatchcase(name, pattern + suffix) for suffix in COMPRESSIONS)
        ]
    return sorted(found)


def need_file(folder: Path, name: str) -> Path:
    """The only file with that name at or below a folder; none or several are an error."""
    found = find_files(folder, name)
    if len(found) != 1:
        names = ", ".join(str(path.relative_to(folder)) for path in found) or "none"
        raise ConfigError(
            f"{folder}: expected exactly one file {name} here or below, found {names}"
        )
    return found[0]
