"""Files: written so that a crash leaves the old one or the new one; JSON, folders, checksums."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from relmo.errors import OutputError, RelmoError, WeightError

ADVICE = "is the folder writable, and is there room on the disk?"


@contextmanager
def replacing(path: Path, advice: str = ADVICE) -> Iterator[Path]:
    """A path beside `path` to write to; on leaving, that file is synced and renamed onto `path`.

    An error on the way deletes it and leaves `path` as it was.
    """
    temporary = path.with_name(path.name + ".tmp")
    with explain(path, advice):
        try:
            yield temporary
            sync_file(temporary)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


@contextmanager
def explain(path: Path, advice: str = ADVICE) -> Iterator[None]:
    """Turn the file system's errors into OutputError: the path, the reason, what to do."""
    try:
        yield
    except RelmoError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}; {advice}") from error


def sync_file(path: Path) -> None:
    """Wait until the file's bytes are on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the folder's entries (files created, renamed, deleted) are on the disk."""
    if sys.platform == "win32":
        return  # Windows has no such call
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
