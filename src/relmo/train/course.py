"""What decides each step of a run, noted beside its checkpoints: it may not change on the way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relmo.errors import ConfigError
from relmo.train.checkpoint import has_checkpoint
from relmo.weights.facts import make_folder, read_json, write_json


def check_course(folder: Path, course: Mapping[str, Any], *, is_noted: bool) -> None:
    """Note a course; a checkpoint of a run that began with another one is an error.

    How long a run is, how often it looks and the learning rate are no part of it.

    Args:
        folder: of the run's checkpoints.
        course: names and values, as JSON holds them.
        is_noted: whether to note it where there is no checkpoint yet.
    """
    path, course = folder / "course.json", json.loads(json.dumps(course))
    if path.is_file() and has_checkpoint(folder):
        begun = read_json(path)
        other = sorted(name for name in course if course[name] != begun.get(name))
        if other:
            raise ConfigError(
                f"{folder} is of a run with another {', '.join(other)}; resume with what it began "
                f"with, or choose another folder"
            )
    elif is_noted:
        make_folder(folder)
        write_json(path, course)
