"""The known layouts of a model folder, as data: detect, or say what was tried."""

from __future__ import annotations

from pathlib import Path

from relmo.errors import ConfigError, ModelNotFound, WeightError
from relmo.weights.native import Native
from relmo.weights.official_hdf5 import OfficialHdf5
from relmo.weights.tensors import Format

FORMATS: dict[str, Format] = {fmt.name: fmt for fmt in (Native(), OfficialHdf5())}


def detect(folder: Path) -> Format:
    """The format of the model in a folder."""
    if not folder.is_dir():
        raise ModelNotFound(f"{folder}: no such folder; give the folder that holds the model")
    for fmt in FORMATS.values():
        if fmt.detect(folder):
            return fmt
    tried = "; ".join(f"{fmt.name}: {fmt.wanted}" for fmt in FORMATS.values())
    held = sorted(path.name for path in folder.iterdir())
    seen = ", ".join(held[:8]) + (" …" if len(held) > 8 else "") if held else "nothing"
    raise WeightError(f"{folder}: no known model layout. Tried {tried}. The folder holds {seen}")


def by_name(name: str) -> Format:
    """The format that a user names."""
    if name not in FORMATS:
        raise ConfigError(f"format {name!r} is not known; choose one of {', '.join(FORMATS)}")
    return FORMATS[name]
