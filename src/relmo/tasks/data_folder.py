"""A folder of a task's data -> the examples of its parts, and what a record says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from relmo.errors import ConfigError
from relmo.files import sha256
from relmo.tasks.parts import PARTS, Part, find_part, need_part
from relmo.tasks.registry import find_task

NEEDED: tuple[Part, ...] = ("train", "dev")
ANY = ("",)
"""Suffixes of a task that says nothing about them."""


def read_parts(name: str, data: Path) -> dict[Part, list[Any]]:
    """Examples of each part of a task's data; a test part may be missing.

    A task whose parts are not simply files of their names has a classmethod `parts`.
    """
    kind = find_task(name)
    if hasattr(kind, "parts"):
        found: dict[Part, list[Any]] = kind.parts(data)
    else:
        for part in NEEDED:
            need_part(data, part, getattr(kind, "suffixes", ANY))
        files = find_parts(name, data)
        found = {part: kind.read(files[part], part) if part in files else [] for part in PARTS}
        facts = kind.facts_of(found["train"])
        for part in files.keys() - {"train"}:
            kind.check(files[part], found[part], facts)
    for part in NEEDED:
        if not found[part]:
            raise ConfigError(f"{data}: the {part} part holds no example; give one with some")
    return found


def find_parts(name: str, data: Path) -> dict[Part, Path]:
    """The files of a task's parts."""
    suffixes = getattr(find_task(name), "suffixes", ANY)
    found = {part: find_part(data, part, suffixes) for part in PARTS}
    return {part: path for part, path in found.items() if path is not None}


def data_facts(name: str, data: Path, examples: Mapping[Part, Sequence[Any]]) -> dict[str, Any]:
    """Names, sizes and checksums."""
    files = {
        part: {"name": path.name, "sha256": sha256(path)}
        for part, path in find_parts(name, data).items()
    }
    counts: dict[str, int] = {part: len(found) for part, found in examples.items()}
    return {"name": data.resolve().name, **counts, "files": files}
