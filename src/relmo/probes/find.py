"""A file of a data folder by its name, wherever below the folder it lies."""

from __future__ import annotations

from pathlib import Path

from relmo.errors import ConfigError

PACKINGS = ("", ".gz", ".xz", ".zst")


def find_files(folder: Path, pattern: str) -> list[Path]:
    """All files below a folder whose name fits the pattern, plain or packed, in order."""
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder; give the one that holds the data's files")
    found = [path for end in PACKINGS for path in folder.rglob(pattern + end) if path.is_file()]
    return sorted(found)


def need_file(folder: Path, name: str) -> Path:
    """The one file of that name; none or several are an error."""
    found = find_files(folder, name)
    if len(found) != 1:
        which = ", ".join(str(path.relative_to(folder)) for path in found) or "none"
        raise ConfigError(f"{folder}: one file {name} is needed there or below; found: {which}")
    return found[0]
