"""Other ELMos, each in its own environment's Python, asked batch by batch.

A peer is one module beside this file that needs no relmo; `peer_process.py` runs it and answers
lines of JSON. A new peer joins `MODULES`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from relmo.errors import ConfigError, RelmoError
from relmo.lab.bench.cases import BATCHES, Case
from relmo.lab.bench.sentences import Words
from relmo.types import Vectors
from relmo.weights.convert import convert_model

PROCESS = "peer_process.py"
"""The script that every peer runs in."""
MODULES = {"allennlp": "peer_allennlp.py", "tensorflow": "peer_tensorflow.py"}
"""Peer -> the file with its `Runner`."""


class PeerMissing(Exception):
    """A peer cannot be measured here; the message says why."""


def parse_peer(text: str) -> tuple[str, str]:
    """`allennlp=PYTHON` -> its name and the Python of its environment."""
    name, equals, python = text.partition("=")
    if name not in MODULES or not equals or not python:
        raise ConfigError(
            f"--peers {text!r}: NAME=PYTHON is needed, the Python of the peer's environment, "
            f"where NAME is one of {', '.join(MODULES)}"
        )
    return name, python


class Peer:
    """A running peer with the model loaded.

    Args:
        name: of `MODULES`.
        python: of an environment that has it installed.
        model: folder in the official layout.
        threads: for its arithmetic.
    """

    def __init__(self, name: str, python: str, model: Path, threads: int) -> None:
        self.name = name
        self._folder = TemporaryDirectory(prefix="relmo-peer-")
        folder = Path(self._folder.name)
        self._errors = folder / "errors.txt"
        for file in (PROCESS, MODULES[name]):  # alone: they must not find our modules
            shutil.copy(Path(__file__).parent / file, folder)
        module = Path(MODULES[name]).stem
        arguments = [module, str(model), str(threads), str(max(BATCHES))]
        try:
            with self._errors.open("wb") as errors:
                self._process = subprocess.Popen(
                    [python, str(folder / PROCESS), *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                )
        except OSError as error:
            self._folder.cleanup()
            raise PeerMissing(f"{python} cannot be run: {error.strerror}") from error
        self.facts = self._answer()

    def seconds(self, case: Case) -> float:
        """How long it takes for a case."""
        return float(self._ask({"calls": case.calls})["seconds"])

    def vectors(self, sentences: Sequence[Words]) -> list[Vectors]:
        """All layers of each sentence, (L + 1, T, D), from a zero start."""
        found = self._ask({"vectors": sentences})["vectors"]
        return [np.array(layers, dtype=np.float32) for layers in found]

    def finish(self) -> dict[str, Any]:
        """Its last words: peak memory."""
        return self._ask({"finish": True})

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()

    def _ask(self, values: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(values).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it has ended; there is no answer either, and its errors say why
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            said = self._errors.read_text(errors="replace").strip().splitlines()
            code = self._process.returncode
            self.close()
            raise PeerMissing(f"{self.name} ended with {code}: {(said or ['no message'])[-1]}")
        found: dict[str, Any] = json.loads(line)
        return found


def export(model: str, folder: Path) -> None:
    """Write the model in the layout that all peers read."""
    try:
        convert_model(model, folder, "hdf5")
    except RelmoError as error:
        raise PeerMissing(f"peers read the official layout, and {error}") from error


def max_difference(ours: Sequence[Vectors], theirs: Sequence[Vectors]) -> float:
    """Largest absolute difference of any number; the shapes must be equal."""
    wanted, found = [a.shape for a in ours], [b.shape for b in theirs]
    if wanted != found:
        raise PeerMissing(f"its vectors have the shapes {found}, ours {wanted}")
    pairs = zip(ours, theirs, strict=True)
    return max((float(np.abs(a - b).max(initial=0.0)) for a, b in pairs), default=0.0)
