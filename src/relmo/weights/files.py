"""Writing a file so that a crash leaves the old one or the new one, never half of one."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from relmo.errors import OutputError, WeightError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`; on leaving it is synced and renamed onto `path`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written ({error.strerror or error}); "
            f"is the folder writable, and is there room on the disk?"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Create the folder and its parents, or say why that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made a folder ({error.strerror})") from error


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
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise WeightError(f"{path}: not valid JSON ({error}); is the file complete?") from error
    if not isinstance(values, dict):
        raise WeightError(f"{path}: holds {type(values).__name__}, a JSON object is needed")
    return values


def sha256(path: Path) -> str:
    """Checksum of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system lets a folder be synced."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
