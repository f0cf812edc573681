"""The ELMos that need no path: those that come with relmo, and those of installed packages.

Task models are listed by `tasks/installed.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from relmo.errors import RelmoError
from relmo.weights.find import (
    ENTRY_POINTS,
    UNTRAINED,
    detect,
    find_model,
    known_models,
    read_model,
    small_config,
)
from relmo.weights.native import Native, read_config

CARD_BYTES = 4096
"""Of a model card, enough for what stands before its text."""


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """What a list of models says about one of them, from its settings; weights are not read."""

    name: str
    source: str
    """Where it comes from: relmo itself, or a package with its version."""
    layers: int | None = None
    """The token layer included."""
    width: int | None = None
    bytes: int = 0
    has_softmax: bool = False
    """Whether it can score text and fill in words."""
    language: str | None = None
    """As its card says it."""
    licence: str | None = None
    folder: str | None = None
    problem: str | None = None
    """Why it cannot be used."""


def installed_models() -> list[InstalledModel]:
    """Every ELMo that needs no path, by name."""
    packages, found = packages_of_models(), []
    for name in known_models("ELMo"):
        source = packages.get(name, "relmo")
        try:
            found.append(_describe(name, source))
        except RelmoError as error:
            found.append(InstalledModel(name, source, problem=str(error)))
    return found


def packages_of_models() -> dict[str, str]:
    """Model -> the installed package that contains it, with its version."""
    return {
        entry.name: f"{entry.dist.name} {entry.dist.version}" if entry.dist else "a package"
        for entry in entry_points(group=ENTRY_POINTS)
    }


def _describe(name: str, source: str) -> InstalledModel:
    if name == UNTRAINED:
        made = small_config()
        return InstalledModel(name, "relmo, random weights", made.num_layers, made.width)
    folder = find_model(name)
    is_native = isinstance(detect(folder), Native)
    config = read_config(folder).config if is_native else read_model(folder).config
    return InstalledModel(
        name=name,
        source=source,
        layers=config.num_layers,
        width=config.width,
        bytes=sum(path.stat().st_size for path in files_in(folder)),
        has_softmax=any(path.name.startswith("lm_head") for path in files_in(folder)),
        language=language_of(folder / "README.md"),
        licence=config.licence or None,
        folder=str(folder),
    )


def files_in(folder: Path) -> Iterator[Path]:
    """The files of a model's folder."""
    return (path for path in folder.iterdir() if path.is_file())


def language_of(card: Path) -> str | None:
    """The language that a model card names before its text, if it does."""
    try:
        with card.open(encoding="utf-8", errors="replace") as file:
            head = file.read(CARD_BYTES)
    except OSError:
        return None
    found = re.search(r"^language:\s*(\S+)\s*$", head, re.MULTILINE)
    return found[1] if found and head.startswith("---\n") else None
