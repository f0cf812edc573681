"""A file of a data folder by its name, wherever below the folder it lies."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from relmo.errors import ConfigError

PACKINGS = ("", ".gz", ".xz", ".zst")


def find_files(folder: Path, pattern: str) -> list[Path]:
    """All files below a folder whose name fits the pattern, plain or packed, in order."""
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder; give the one that holds the data's files")
    patterns = [pattern + end for end in PACKINGS]
    return sorted(
        path
        for path in _files(folder, set())
        if any(fnmatchcase(path.name, each) for each in patterns)
    )


def _files(folder: Path, seen: set[Path]) -> Iterator[Path]:
    """All files below a folder, linked folders too, each folder once: links may be rings."""
    if (real := folder.resolve()) in seen:
        return
    seen.add(real)
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from _files(path, seen)
        elif path.is_file():
            yield path


def need_file(folder: Path, name: str) -> Path:
    """The one file of that name; none or several are an error."""
    found = find_files(folder, name)
    if len(found) != 1:
        which = ", ".join(str(path.relative_to(folder)) for path in found) or "none"
        raise ConfigError(f"{folder}: one file {name} is needed there or below; found: {which}")
    return found[0]
