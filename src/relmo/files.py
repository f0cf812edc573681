"""Writing files so that a crash leaves the old one or the new one, never half of one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relmo.errors import OutputError, RelmoError

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
