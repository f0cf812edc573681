"""The small files around the weights: folders, JSON, checksums."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from relmo.errors import WeightError
from relmo.files import explain, replacing


def make_folder(folder: Path) -> None:
    """Create the folder and its parents, or say why that fails."""
    with explain(folder, "choose a folder that can be made"):
        folder.mkdir(parents=True, exist_ok=True)


def write_json(path: Path, values: Any) -> None:  # noqa: ANN401 - any JSON
    """Write JSON for people: indented, in the order given."""
    with replacing(path) as temporary:
        text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
        temporary.write_text(text, encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, or raise WeightError that says where it breaks."""
    try:
        values = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise WeightError(f"{path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise WeightError(f"{path}: not valid JSON ({error}); is the file complete?") from error
    if not isinstance(values, dict):
        raise WeightError(f"{path}: holds {type(values).__name__}, a JSON object is needed")
    return values


def sha256(path: Path) -> str:
    """Checksum of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
