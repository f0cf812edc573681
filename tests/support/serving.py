"""Servers to test against: in this process, or as a process of their own."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

EXTRA = "pip install 'relmo[serve]'"


@contextlib.contextmanager
def live(app) -> Iterator[str]:
    """Serve an app on loopback from a thread; gives its address."""
    from relmo.serve.app import bind, make_server

    listening = bind("127.0.0.1", 0)
    port = listening.getsockname()[1]
    server = make_server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        until(lambda: server.started)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


class ServerProcess:
    """`relmo serve` as a user starts it."""

    def __init__(self, model: Path, *args: str, port: int, env: dict[str, str] | None = None):
        command = [sys.executable, "-m", "relmo", "serve", "--model", str(model)]
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [*command, "--port", str(port), *args],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        until(lambda: is_up(self.url) or self.process.poll() is not None, seconds=60)

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            self.lines += lines

    def stop(self, kind: int = signal.SIGTERM) -> int:
        """Ask it to stop; gives its exit code."""
        self.process.send_signal(kind)
        code = self.process.wait(timeout=60)
        self._reader.join()
        return code

    @property
    def log(self) -> list[dict]:
        """Its log, which must be JSON but for the line with the address."""
        return [json.loads(line) for line in self.lines if not line.startswith("relmo: ")]


def is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/ready", timeout=1):
            return True
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def until(condition, seconds: float = 10) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not become true"
        time.sleep(0.005)
