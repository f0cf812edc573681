"""Files and folders: crash-safe replacement, JSON, checksums."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from relmo.errors import OutputError, RelmoError, WeightError

ADVICE = "check that the folder is writable and that there is space on the disk"
MAX_JSON_BYTES = 64 * 2**20
MAX_JSON_DEPTH = 100
SEAL = "seal"
"""The key of a JSON file's own checksum."""


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


def is_plain_name(name: object) -> bool:
    """Whether this is the name of a file in a folder: no path, and nothing outside of it."""
    if not isinstance(name, str) or name in ("", "..") or {*name} & {"\\", ":", "\0"}:
        return False
    return Path(name).name == name


def write_json(path: Path, values: Any) -> None:  # noqa: ANN401 - any JSON
    """Write indented JSON, keys in the order given."""
    with replacing(path) as temporary:
        text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
        temporary.write_text(text, encoding="utf-8")


def open_regular(path: Path) -> BufferedReader:
    """Open a file to read; a pipe, a device or a socket is an OSError at once instead of a wait."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_limited(path: Path, limit: int) -> bytes:
    """The content of a file; an OSError if it is no regular file or has more bytes than `limit`."""
    with open_regular(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes", str(path))
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; WeightError says what is wrong with the file."""
    try:
        values = json.loads(read_limited(path, MAX_JSON_BYTES).decode("utf-8-sig"))
    except OSError as error:
        raise WeightError(f"{path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise WeightError(f"{path}: not valid JSON ({error}); is the file complete?") from error
    if not isinstance(values, dict):
        raise WeightError(f"{path}: expected a JSON object, got {type(values).__name__}")
    if _is_deeper(values, MAX_JSON_DEPTH):
        raise WeightError(f"{path}: JSON nested more than {MAX_JSON_DEPTH} deep; write it flatter")
    return values


def _is_deeper(values: Any, depth: int) -> bool:  # noqa: ANN401 - any JSON
    """Whether lists and objects are nested deeper than this; recursive code would fail on them."""
    level = [values]
    for _ in range(depth):
        children = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for child in children for each in child if isinstance(each, dict | list)]
    return bool(level)


def sha256(path: Path) -> str:
    """SHA-256 checksum of a file, in hexadecimal."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksum(values: Mapping[str, Any]) -> str:
    """SHA-256 of JSON values without the key SEAL, where a file keeps its own checksum."""
    rest = {key: value for key, value in values.items() if key != SEAL}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
