"""What a trained task's model is besides its weights: task.json and words.json of a run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from relmo.errors import ModelNotFound, WeightError
from relmo.files import make_folder, read_json, replacing

NAME, WORDS = "task.json", "words.json"


@dataclass(frozen=True, kw_only=True)
class About:
    """All that is needed to build the model again."""

    task: str
    recipe: dict[str, Any]
    facts: dict[str, Any]
    """Labels and the like, as the task found them in its training data."""
    words: list[str]
    """Those with a static vector, in the order of its rows."""
    static_width: int
    letters: list[str] | None
    """Characters that the model spells with; None if it does not spell."""
    elmo: dict[str, str] | None
    """Name and fingerprint of the model it reads with, and where that was found."""

    def write(self, folder: Path) -> None:
        """Write both files. They are ASCII: a word may hold what no encoding has."""
        make_folder(folder)
        values = asdict(self)
        for name, part in ((WORDS, values.pop("words")), (NAME, values)):
            with replacing(folder / name) as temporary:
                indent = None if name == WORDS else 2
                temporary.write_text(json.dumps(part, indent=indent) + "\n", encoding="ascii")


def read_about(folder: Path) -> About:
    """Read what `About.write` wrote."""
    if not (folder / NAME).is_file():
        raise ModelNotFound(f"{folder} is no folder of a task's run: it has no {NAME}")
    values = read_json(folder / NAME)
    missing = {field.name for field in fields(About)} - values.keys() - {"words"}
    if missing or not (folder / WORDS).is_file():
        what = ", ".join(sorted(missing)) or WORDS
        raise WeightError(f"{folder}: {what} is missing there; train again")
    try:
        words = json.loads((folder / WORDS).read_text(encoding="ascii"))
        return About(words=words, **values)
    except (ValueError, TypeError) as error:
        raise WeightError(f"{folder}: {NAME} or {WORDS} is broken ({error})") from error
