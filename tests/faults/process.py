"""The `relmo` command in a forked child, so that a hundred of them start in no time."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

TIMEOUT = 120.0
"""Seconds after which a command counts as hung."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit status (minus the signal's number if one killed it) and output."""

    status: int
    out: str
    err: str

    @property
    def explained(self) -> bool:
        """Whether it failed, and said so in a line of its own without a traceback."""
        has_line = any(line.startswith("relmo: ") for line in self.err.splitlines())
        return self.status in (1, 2) and has_line and "Traceback" not in self.err

    @property
    def last_words(self) -> str:
        """The last lines of what it said."""
        return f"exit {self.status}: " + " | ".join((self.err or self.out).splitlines()[-6:])[-500:]


class Running:
    """A started command."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.pid, self._folder, self._status = pid, folder, None

    def kill(self, number: int) -> None:
        """Send it a signal, if it is still there."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def poll(self) -> int | None:
        """Its exit status if it has ended."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status

    def wait(self, timeout: float = TIMEOUT) -> Ended:
        """Wait for its end; TimeoutError if it hangs."""
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise TimeoutError(f"still running after {timeout:.0f} s")
            time.sleep(0.005)
        assert self._status is not None
        return Ended(self._status, self._said("out"), self._said("err"))

    def _said(self, name: str) -> str:
        path = self._folder / f"{self.pid}.{name}"
        if not path.exists():  # killed before its first line
            return ""
        return path.read_text(encoding="utf-8", errors="replace")


def start(
    args: Sequence[object],
    logs: Path,
    before: Callable[[], None] = lambda: None,
    stdout: int | None = None,
) -> Running:
    """Start `relmo ARGS`; `before` runs in the child; its output goes to files under `logs`."""
    sys.stdout.flush()
    logs.mkdir(parents=True, exist_ok=True)
    pid = os.fork()
    if pid:
        return Running(pid, logs)
    code = 70
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, name in ((1, "out"), (2, "err")):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            os.dup2(os.open(logs / f"{os.getpid()}.{name}", flags, 0o644), number)
        if stdout is not None:
            os.dup2(stdout, 1)
        sys.stdout, sys.stderr = (open(n, "w", encoding="utf-8", buffering=1) for n in (1, 2))  # noqa: PTH123, SIM115
        before()
        code = run_main([str(arg) for arg in args])
    except KeyboardInterrupt:
        if "relmo/cli" in traceback.format_exc():
            traceback.print_exc()
        else:
            code = 130  # before the command had begun
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        os._exit(code)


def run_main(args: list[str]) -> int:
    """The command's exit status, as the interpreter would give it."""
    from relmo.cli.main import main

    sys.argv = ["relmo", *args]
    try:
        main(args)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def run(args: Sequence[object], logs: Path, **options: object) -> Ended:
    """Start and wait."""
    return start(args, logs, **options).wait()  # type: ignore[arg-type]


# ── file systems ────────────────────────────────────────────────────────────────────────────────

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_NAMESPACE, _PRIVATE = 0x00020000, 0x44000


def enter_own_namespace() -> bool:
    """Mount what follows for this process and its children alone; False if not permitted."""
    if not sys.platform.startswith("linux") or _LIBC.unshare(_NEW_NAMESPACE):
        return False
    return not _LIBC.mount(None, b"/", None, _PRIVATE, None)


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Callable[[], None]]:
    """A disk of `size` bytes mounted at the folder; what it yields makes it large."""
    folder.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder)
    try:
        yield lambda: _mount("-o", "remount,size=1g", folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let nobody, not even root, write into the folder."""
    _mount("--bind", folder, folder)
    _mount("-o", "remount,bind,ro", folder)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _mount(*args: object) -> None:
    subprocess.run(["mount", *map(str, args)], check=True)
