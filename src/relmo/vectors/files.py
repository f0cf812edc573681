"""What a file needs to survive a crash, and the file system's errors put into words."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from relmo.errors import OutputError

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import FileIO
    from pathlib import Path


@contextmanager
def explain(path: Path, advice: str) -> Iterator[None]:
    """Turn the file system's errors into OutputError: the path, the reason, what to do."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}; {advice}") from error


def open_locked(path: Path) -> FileIO:
    """The file at path, for appending, unbuffered, created if absent, held by us alone.

    Raises:
        OutputError: Another process holds it.
    """
    while True:
        file = path.open("ab", buffering=0)
        try:
            _lock(file, path)
            if _is_still_at(file, path):
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # its holder deleted it between our opening and our locking: once more


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


def _lock(file: FileIO, path: Path) -> None:
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OutputError(
            f"{path}: another process is writing it; wait for its end, or choose another output"
        ) from error
    except OSError:
        pass  # some network file systems have no locks: then the user must keep runs apart


def _is_still_at(file: FileIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
