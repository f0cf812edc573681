"""Files and folders: crash-safe replacement, locks, JSON, checksums."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

from relmo.errors import OutputError, RelmoError, WeightError

if sys.platform != "win32":
    import fcntl

ADVICE = "check that the folder is writable and that there is space on the disk"
MAX_JSON_BYTES = 64 * 2**20
MAX_JSON_DEPTH = 100
SEAL = "seal"
"""The key of a JSON file's own checksum."""


@contextmanager
def replacing(path: Path, advice: str = ADVICE, *, follow: bool = False) -> Iterator[Path]:
    """Yield a path beside `path` to write to; on exit that file is synced and renamed to `path`.

    An error deletes the new file and leaves `path` as it was.

    Args:
        path: the file.
        advice: what to do if it cannot be written.
        follow: whether to keep a link and replace the file that it points to. Only for an output
            that the user named: in a folder from elsewhere a link may point anywhere.
    """
    with explain(path, advice):
        path = _follow(path) if follow else path
        tidy(path.parent, path.name)
        with _temporary_name(path, "tmp") as temporary:
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

    An error deletes the new folder and leaves `path` as it was. A crash may leave the old one under
    a hidden name, beside the new one: `tidy`, or the next replacement of `path`, puts it back.
    """
    with explain(path, advice):
        path.parent.mkdir(parents=True, exist_ok=True)
        tidy(path.parent, path.name)
        with _temporary_name(path, "tmp") as temporary, _temporary_name(path, "old") as old:
            try:
                temporary.mkdir()
                yield temporary
                for file in temporary.iterdir():
                    sync_file(file)
                sync_folder(temporary)
                if path.exists() or path.is_symlink():
                    path.rename(old)  # a rename does not replace a folder that has files
                temporary.rename(path)
            except BaseException:
                shutil.rmtree(temporary, ignore_errors=True)
                if old.exists() and not path.exists():
                    old.rename(path)
                raise
            sync_folder(path.parent)
            _delete(old)


def tidy(folder: Path, name: str | None = None) -> None:
    """Clean up after processes that were killed while they replaced files or folders in `folder`.

    What was being written is deleted; a folder that was to be replaced is put back.

    Args:
        folder: where they wrote.
        name: of the file or folder that was replaced; by default, all.
    """
    with suppress(OSError):  # no such folder, or not ours: it is only tidying
        for each in sorted(folder.iterdir()):
            found = LEFTOVER.fullmatch(each.name)
            if not found or not _is_abandoned(each, found):
                continue
            if name is not None and found["name"] != _short(name):
                continue
            target = folder / (name or found["name"])
            if found["end"] == "old" and not target.exists():
                each.rename(target)
            else:
                _delete(each)


def _delete(path: Path) -> None:
    """Delete a file, a link or a folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


HOST = f"{zlib.crc32(platform.node().encode()):08x}"
LEFTOVER = re.compile(
    r"\.(?P<name>.+)\.(?P<host>[0-9a-f]{8})-(?P<pid>\d+)-[0-9a-f]{8}\.(?P<end>tmp|old)", re.DOTALL
)
_in_use: set[Path] = set()  # temporary names of this process


@contextmanager
def _temporary_name(path: Path, end: str) -> Iterator[Path]:
    """A hidden name beside `path` that nobody else has; it says which process uses it."""
    token = f"{HOST}-{os.getpid()}-{secrets.token_hex(4)}"
    temporary = path.with_name(f".{_short(path.name)}.{token}.{end}")
    _in_use.add(temporary)
    try:
        yield temporary
    finally:
        _in_use.discard(temporary)


def _short(name: str) -> str:
    """The name itself, or its hash if a longer one could not be a file's."""
    is_long = len(os.fsencode(name)) > 200
    return hashlib.sha256(os.fsencode(name)).hexdigest() if is_long else name


def _is_abandoned(path: Path, name: re.Match[str]) -> bool:
    """Whether the process that a temporary name tells has ended."""
    if name["host"] != HOST or sys.platform == "win32":
        return False
    pid = int(name["pid"])
    if pid == os.getpid():  # in a container a new process often has the number of the one before
        return path not in _in_use
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    return False


def _follow(path: Path) -> Path:
    """What a link points to; any other path as it is."""
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return target


# ── one process at a time ────────────────────────────────────────────────────────────────────────


class InUse(OutputError):
    """Another process has locked the file."""


def open_locked(path: Path) -> FileIO:
    """Open the file for appending, unbuffered and locked; create it if it does not exist.

    The lock ends with the process, however it ends.

    Raises:
        InUse: Another process has locked it.
    """
    while True:
        file = FileIO(path, "ab", opener=open_own)
        try:
            _lock(file, path)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file
        except BaseException:
            file.close()
            raise
        file.close()  # its owner deleted it between our opening and our locking: try again


def open_own(path: str, flags: int) -> int:
    """For `open(..., opener=open_own)`: a link, a pipe or a device is an OSError at once.

    In a folder from elsewhere any of them may stand under the name of a file that relmo writes.
    """
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    wrong = "it is a link, a pipe or a device, not a file of relmo; delete it"
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise OSError(error.errno, wrong, path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, wrong, path)
    return descriptor


@contextmanager
def locked(path: Path, pause: float = 0.2) -> Iterator[None]:
    """Hold a lock, which is a file that exists meanwhile; wait while another process holds it.

    Raises:
        InUse: This process was started by the one that holds it, which may wait for this one.
    """
    while True:
        try:
            file = take_lock(path)
            break
        except InUse:
            if lock_holder(path) == str(os.getppid()):
                raise
            time.sleep(pause)
    try:
        yield
    finally:
        release_lock(file, path)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a folder, which is created if it does not exist.

    Raises:
        InUse: Another process writes to it; the message names that process.
    """
    is_new, path = not folder.exists(), folder / ".lock"
    make_folder(folder)
    try:
        with explain(path):
            file = take_lock(path)
    except InUse as error:
        holder, advice = lock_holder(path), "wait until it ends, or choose another folder"
        who = f"process {holder}" if holder.isdecimal() else "another process"
        raise InUse(f"{folder}: {who} is writing to this folder; {advice}") from error
    try:
        yield
    finally:
        release_lock(file, path)
        if is_new:
            with suppress(OSError):  # not empty: what was written stays
                folder.rmdir()


def take_lock(path: Path, holder: str | None = None) -> FileIO:
    """Open and lock a file that says who holds it, by default the number of this process."""
    file = open_locked(path)
    try:
        file.truncate(0)
        file.write(f"{holder or os.getpid()}\n".encode())
    except BaseException:
        release_lock(file, path)
        raise
    return file


def lock_holder(path: Path) -> str:
    """Who holds a lock; empty if it has not been said, or the lock is gone."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _lock(file: FileIO, path: Path) -> None:
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InUse(
            f"{path}: another process is writing it; wait until it ends, or choose another output"
        ) from error
    except OSError:
        pass  # some network file systems have no locks: there the user must keep runs apart


def release_lock(file: FileIO, path: Path) -> None:
    """Delete a lock's file while it is locked, so that nobody locks a deleted one."""
    if sys.platform == "win32":
        file.close()
    path.unlink(missing_ok=True)
    file.close()


# ── errors, syncing, JSON, checksums ────────────────────────────────────────────────────────────


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


def write_json(path: Path, values: Any, *, follow: bool = False) -> None:  # noqa: ANN401 - any JSON
    """Write indented JSON, keys in the order given; `follow` as in `replacing`."""
    with replacing(path, follow=follow) as temporary:
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
