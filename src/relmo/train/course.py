"""What decides each step of a run, noted beside its checkpoints: it may not change on the way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relmo.errors import ConfigError
from relmo.files import make_folder, read_json, write_json
from relmo.train.checkpoint import has_checkpoint


def check_course(
    folder: Path,
    course: Mapping[str, Any],
    *,
    is_noted: bool,
    defaults: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Note a course; a checkpoint of a run that began with another one is an error.

    How long a run is, how often it looks and the learning rate are no part of it.

    Args:
        folder: of the run's checkpoints.
        course: names and values, as JSON holds them.
        is_noted: whether to note it where there is no checkpoint yet.
        defaults: of sections of the course: what a run had that began before there was a choice.
    """
    path, course = folder / "course.json", json.loads(json.dumps(course))
    if path.is_file() and has_checkpoint(folder):
        begun = read_json(path)
        for name, values in (defaults or {}).items():
            begun[name] = {**json.loads(json.dumps(values)), **begun.get(name, {})}
        other = sorted(name for name in course if course[name] != begun.get(name))
        if other:
            was = ", ".join(what for name in other for what in _was(name, begun, course))
            raise ConfigError(
                f"{folder} is of a run with another {', '.join(other)}; resume with what it began "
                f"with{was and f' ({was})'}, or choose another folder"
            )
    elif is_noted:
        make_folder(folder)
        write_json(path, course)


def _was(name: str, begun: Mapping[str, Any], course: Mapping[str, Any]) -> list[str]:
    """`model.dropout 0.3` for each value of a section that a run began with and now has not."""
    before, now = begun.get(name), course[name]
    if not (isinstance(before, dict) and isinstance(now, dict)) or name == "data":
        return []
    return [
        f"{name}.{key} {before[key]}" for key in before if key in now and before[key] != now[key]
    ]
