"""Recipes: TOML files of the package or of the user, with changes from the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from relmo.config import build, check_keys, shown
from relmo.errors import ConfigError

LENGTHS = ("epochs", "steps", "minutes")
"""Exactly one bounds a run: a change from the command line replaces the recipe's."""


def read_recipe(folder: str, name: str | Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """The values of a recipe after the changes, to be checked by `make_sections`.

    Args:
        folder: of the package's recipes: "pretrain" or "tasks".
        name: of a recipe in that folder, or the path of a TOML file.
        changes: "section.key=value" each, the value in TOML.
    """
    path = Path(name)
    if not path.is_file():
        path = _folder(folder) / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(known_recipes(folder))
        raise ConfigError(f"no recipe {str(name)!r}; give a TOML file or one of {known}")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:  # also not UTF-8, or a number of 5,000 digits
        raise ConfigError(f"{path}: not valid TOML ({error})") from error
    for change in changes:
        _apply(values, change)
    return values


def make_sections(
    values: Mapping[str, Any], kinds: Mapping[str, type], where: str
) -> dict[str, Any]:
    """The settings of each section of a recipe, checked against the types in `kinds`.

    A section that is missing gets its defaults. Errors name the recipe as `where`.
    """
    check_keys(values, set(kinds), where)
    return {
        name: build(kind, values.get(name, {}), f"{where}: {name}") for name, kind in kinds.items()
    }


def known_recipes(folder: str) -> list[str]:
    """Names of the recipes in the package."""
    return sorted(path.stem for path in _folder(folder).glob("*.toml"))


def _apply(values: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    if not equals:
        raise ConfigError(
            f"{shown(change)}: expected section.key=value, for example training.seed=1"
        )
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text  # a bare word
    *path, last = key.strip().split(".")
    for part in path:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{shown(change)}: {shown(part)} is not a section")
    values[last] = value
    if path == ["training"] and last in LENGTHS:
        for other in set(LENGTHS) - {last}:
            values.pop(other, None)


def _folder(folder: str) -> Path:
    return Path(str(files("relmo"))) / "recipes" / folder
