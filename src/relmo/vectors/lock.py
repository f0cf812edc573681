"""A file that one process holds at a time."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from relmo.errors import OutputError

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path


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
