"""The command, run in the tests' own process."""

import io
import sys
from dataclasses import dataclass

import pytest

from relmo.cli.main import main


@dataclass
class Finished:
    returncode: int
    stdout: bytes
    stderr: bytes


@pytest.fixture
def run(monkeypatch, capfdbinary):
    """Run the command in this process: importing torch anew costs seconds each time.

    Progress is silent: whether work takes more than a second depends on the machine.
    """
    monkeypatch.setattr("relmo.progress.FIRST", 600.0)
    monkeypatch.setattr("relmo.progress.EVERY", 600.0)

    def run(*args, stdin: bytes = b"") -> Finished:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main([str(arg) for arg in args])
        code = exit_.value.code
        out, err = capfdbinary.readouterr()
        return Finished(code if isinstance(code, int) else 0, out, err)

    return run
