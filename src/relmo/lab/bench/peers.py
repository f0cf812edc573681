"""Other ELMo implementations, each in its own environment's Python, timed on the same sentences.

A peer that is missing or fails is reported and left out. A new peer is one class in
`peer_process.py` and one name in `PEERS`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from relmo.elmo import Elmo
from relmo.errors import ConfigError, RelmoError, WeightError
from relmo.lab.bench.sentences import BATCHES
from relmo.weights.find import convert_model

PROCESS = Path(__file__).with_name("peer_process.py")
PEERS = ("allennlp", "tensorflow")


def parse_peer(text: str) -> tuple[str, str]:
    """`allennlp=PYTHON` -> its name and the Python of its environment."""
    name, equals, python = text.partition("=")
    if name not in PEERS or not equals or not python:
        raise ConfigError(
            f"--peers {text!r}: expected NAME=PYTHON, the Python of the peer's environment, "
            f"where NAME is one of {', '.join(PEERS)}"
        )
    return name, python


class RunnerProcess:
    """A running `peer_process.py` with the model loaded; once it fails it answers nothing.

    Args:
        name: of the runner: a peer's, or "relmo".
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.facts: dict[str, Any] = {}
        """What is known of it, as JSON; `missing` is why it could not be measured."""
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = TemporaryDirectory(prefix="relmo-bench-")  # its script and its errors

    def start(self, python: str, model: str, precision: str = "float32") -> None:
        """Load a model in the official layout, or for relmo any, by a Python with the library."""
        script = shutil.copy(PROCESS, self._folder.name)  # alone: it must not find our modules
        self._errors = Path(self._folder.name, "errors.txt")
        sizes, pipe = map(str, (torch.get_num_threads(), max(BATCHES))), subprocess.PIPE
        command = [python, script, self.name, model, *sizes, precision]
        try:
            with self._errors.open("wb") as errors:
                self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors)
        except OSError as error:
            self.fail(f"cannot run {python}: {error.strerror}")
        self.facts.update(self._ask())

    def seconds(self, calls: Sequence[Sequence[Sequence[str]]]) -> float | None:
        """The time these calls take; None if the process has failed."""
        return self._ask({"calls": calls}).get("seconds")

    def compare(self, elmo: Elmo, sentences: Sequence[list[str]]) -> None:
        """Record the largest difference of any number of its vectors from ours."""
        found = self._ask({"vectors": sentences}).get("vectors")
        if found is None:
            return
        theirs, ours = [np.array(v, np.float32) for v in found], elmo.embed(sentences)
        shapes = [[vectors.shape for vectors in each] for each in (theirs, ours)]
        if shapes[0] != shapes[1]:
            self.fail(f"its vectors have the shapes {shapes[0]}, ours {shapes[1]}")
            return
        differences = [float(np.abs(a - b).max()) for a, b in zip(ours, theirs, strict=True)]
        self.facts |= {"max_difference": max(differences), "compared_in": elmo.precision}

    def finish(self) -> None:
        """Record its peak memory and end the process."""
        self.facts.update(self._ask({"finish": True}))
        self.close()

    def fail(self, reason: str) -> None:
        """Give up: the reason is all that remains."""
        self.facts = {"missing": reason}
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()  # it may be in a long call
            self._process.communicate()
            self._process = None
        self._folder.cleanup()

    def _ask(self, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """The answer to a request, or the first line without one; empty once it has failed."""
        if (process := self._process) is None:
            return {}
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):  # it has exited: no answer comes, and its errors give the reason
            if request is not None:
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
        if line := process.stdout.readline():
            return dict(json.loads(line))
        code = process.wait()
        said = self._errors.read_text(errors="replace").strip().splitlines()
        self.fail(f"{self.name} exited with {code}: {(said or ['no message'])[-1]}")
        return {}


def start_peers(wanted: Sequence[str], model: str, stack: ExitStack) -> list[RunnerProcess]:
    """Start peers given as NAME=PYTHON on a model; `stack` closes them."""
    if not wanted:
        return []
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="relmo-bench-"))) / "model"
    peers = {RunnerProcess(name): python for name, python in map(parse_peer, wanted)}
    for peer in peers:
        stack.callback(peer.close)
    try:
        convert_model(model, folder, "hdf5")
    except RelmoError as error:
        for peer in peers:
            peer.fail(f"peers read the official layout, and {error}")
    else:
        for peer, python in peers.items():
            peer.start(python, str(folder))
    return list(peers)


def measure_fresh(
    elmo: Elmo, model: str, precision: str, sentences: Sequence[list[str]]
) -> dict[str, Any]:
    """Load time and peak memory of relmo in a fresh process, which embeds the sentences at once."""
    process = RunnerProcess("relmo")
    process.start(sys.executable, model, precision)
    first = process.seconds([[["One"]]])  # packs the weights
    process.seconds([sentences])
    process.finish()
    if first is None or "missing" in process.facts:
        raise WeightError(f"cannot measure {model} in {precision}: {process.facts['missing']}")
    weights_mb = sum(p.numel() for p in elmo.bilm.parameters()) * 4 // 10**6
    return {**process.facts, "first_sentence_seconds": round(first, 3), "weights_mb": weights_mb}
