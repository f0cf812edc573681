"""Recipes: TOML inside the package or a file of the user's, with changes from the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from relmo.errors import ConfigError

LENGTHS = ("epochs", "steps", "minutes")
"""What can bound a run: a change from the command line replaces what the recipe says."""


def read_recipe(folder: str, name: str | Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """The values of a recipe with changes made to them.

    Args:
        folder: of the package's recipes: "pretrain" or "tasks".
        name: of one of them, or a TOML file.
        changes: "section.key=value" each, the value as TOML writes it.
    """
    values = _read_toml(folder, name)
    for change in changes:
        _apply(values, change)
    return values


def known_recipes(folder: str) -> list[str]:
    """Names of the recipes in the package."""
    return sorted(path.stem for path in _folder(folder).glob("*.toml"))


def section(values: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    """One section of a recipe; empty if it is not there."""
    found = values.get(name, {})
    if not isinstance(found, Mapping):
        raise ConfigError(f"{where}: {name} is {found!r}; a section with settings is needed")
    return dict(found)


def _read_toml(folder: str, name: str | Path) -> dict[str, Any]:
    path = Path(name)
    if not path.is_file():
        path = _folder(folder) / f"{name}.toml"
    if not path.is_file():
        raise ConfigError(
            f"no recipe {str(name)!r}: it is no file; the package has "
            f"{', '.join(known_recipes(folder))}"
        )
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML ({error})") from error


def _apply(values: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    if not equals:
        raise ConfigError(f"{change!r}: write section.key=value, for instance training.seed=1")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word
    *path, last = key.strip().split(".")
    for part in path:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{change!r}: {part!r} is no section")
    values[last] = value
    if path == ["training"] and last in LENGTHS:
        for other in set(LENGTHS) - {last}:
            values.pop(other, None)


def _folder(folder: str) -> Path:
    return Path(str(files("relmo"))) / "recipes" / folder
