"""Files and folders: crash-safe replacement, JSON, checksums."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from relmo.errors import OutputError, RelmoError, WeightError

ADVICE = "check that the folder is writable and that there is space on the disk"


@contextmanager
def replacing(path: Path, advice: str = ADVICE) -> Iterator[Path]:
    """Yield a path beside `path` to write to; on exit that file is synced and renamed to `path`.

    An error deletes the new file and leaves `path` as it was.
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
def replacing_folder(path: Path, advice: str = ADVICE) -> Iterator[Path]:
    """Yield an empty folder beside `path` to fill; on exit it is synced and renamed to `path`.

    An error deletes the new folder and leaves `path` as it was. A crash leaves at most folders
    whose names end in ".tmp", which the next replacement of `path` deletes.
    """
    temporary, old = (path.with_name(path.name + end) for end in (".tmp", ".old.tmp"))
    with explain(path, advice):
        try:
            for leftover in (temporary, old):
                shutil.rmtree(leftover, ignore_errors=True)
            temporary.mkdir(parents=True)
            yield temporary
            for file in temporary.iterdir():
                sync_file(file)
            sync_folder(temporary)
            if path.exists():  # a rename does not replace a folder that has files
                path.rename(old)
            temporary.rename(path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            if old.exists() and not path.exists():
                old.rename(path)
            raise
        sync_folder(path.parent)
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def explain(path: Path, advice: str = ADVICE) -> Iterator[None]:
    """Turn errors of the file system into an OutputError with the path, the reason and advice."""
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
        return  # Windows cannot sync a folder
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create the folder and its parents if they do not exist."""
    with explain(folder, "choose a folder that can be created"):
        folder.mkdir(parents=True, exist_ok=True)


def write_json(path: Path, values: Any) -> None:  # noqa: ANN401 - any JSON
    """Write indented JSON, keys in the order given."""
    with replacing(path) as temporary:
        text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
        temporary.write_text(text, encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; WeightError says what is wrong with the file."""
    try:
        values = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise WeightError(f"{path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise WeightError(f"{path}: not valid JSON ({error}); is the file complete?") from error
    if not isinstance(values, dict):
        raise WeightError(f"{path}: expected a JSON object, got {type(values).__name__}")
    return values


def sha256(path: Path) -> str:
    """SHA-256 checksum of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
