"""Name -> model: a folder on disk, a model package installed beside relmo, or a bundled one."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path

from relmo.errors import ModelNotFound
from relmo.weights.layouts import detect
from relmo.weights.tensors import ModelFiles
from relmo.weights.untrained import UNTRAINED, untrained_model

ENTRY_POINTS = "relmo.models"
"""A model package registers NAME -> MODULE in this group; the module's folder is the model's."""


def read_model(name: str | Path) -> ModelFiles:
    """The model of that name or folder, in whatever layout it is."""
    if name == UNTRAINED:
        return untrained_model()
    folder = find_model(name)
    return detect(folder).read(folder)


def find_model(name: str | Path) -> Path:
    """The folder of a model. A path wins over a name; nothing is ever downloaded."""
    if not str(name):
        raise ModelNotFound("the model's name is empty; give a folder or the name of a model")
    path = Path(name).expanduser()
    if _holds(path.is_dir):
        return path
    bundled = _bundled() / str(name)
    if path.name == str(name) and _holds(bundled.is_dir):
        return bundled
    for entry in entry_points(group=ENTRY_POINTS, name=str(name)):
        return Path(str(files(entry.module)))
    if _holds(path.is_file):
        raise ModelNotFound(f"{path} is a file; give the folder that holds it")
    raise ModelNotFound(
        f"no model {str(name)!r}: it is neither a folder nor an installed model (installed: "
        f"{', '.join(known_models())}). relmo does not download: fetch the model's files and give "
        f"their folder"
    )


def _holds(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except (OSError, ValueError):  # a name too long, or with NUL in it
        return False


def known_models() -> list[str]:
    """Names that need no path."""
    bundled = [p.name for p in _bundled().iterdir() if p.is_dir()] if _bundled().is_dir() else []
    installed = [entry.name for entry in entry_points(group=ENTRY_POINTS)]
    return sorted({*bundled, *installed, UNTRAINED})


def _bundled() -> Path:
    return Path(str(files("relmo"))) / "models"
