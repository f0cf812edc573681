"""Name -> folder: a path on disk, a model package installed beside relmo, or a bundled model."""

from __future__ import annotations

from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path

from relmo.errors import ModelNotFound

ENTRY_POINTS = "relmo.models"
"""A model package registers NAME -> MODULE in this group; the module's folder is the model's."""


def find_model(name: str | Path) -> Path:
    """The folder of a model. A path wins over a name; nothing is ever downloaded."""
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    found = known_models().get(str(name))
    if found is not None:
        return found
    if path.is_file():
        raise ModelNotFound(f"{path} is a file; give the folder that holds it")
    known = ", ".join(sorted(known_models())) or "none"
    raise ModelNotFound(
        f"no model {str(name)!r}: it is neither a folder nor an installed model (installed: "
        f"{known}). relmo does not download: fetch the model's files and give their folder"
    )


def known_models() -> dict[str, Path]:
    """Names that need no path, and their folders."""
    bundled = Path(str(files("relmo"))) / "models"
    found = {p.name: p for p in bundled.iterdir()} if bundled.is_dir() else {}
    for entry in entry_points(group=ENTRY_POINTS):
        found[entry.name] = Path(str(files(entry.module)))
    return found
