"""The process of a peer: loads the model, then answers lines of JSON. Knows no particular peer.

Runs in the peer's own environment, where relmo is not installed, so it imports only what Python
has and the peer's module, a file beside it with a class `Runner`. It is started with the name of
that module, a folder (options.json, weights.hdf5), a number of threads and the most sentences that
a call will have; each line of JSON on standard input is answered by one on standard output:

    (at the start)               {"versions": {…}, "load_seconds": …}
    {"calls": [[[word, …]]]}     {"seconds": …}                each call is one batch
    {"vectors": [[word, …]]}     {"vectors": [(L + 1, T, D)]}  from a zero start, as nested lists
    {"finish": true}             {"peak_mb": …}

A process that fails ends, and the last line that it leaves on standard error says why.
"""

import json
import os
import sys
import time
import warnings
from importlib import import_module
from pathlib import Path
from textwrap import shorten
from typing import Any, Protocol


class Runner(Protocol):
    """What a peer's module has; made with the number of threads, which imports its libraries."""

    versions: dict[str, str]

    def load(self, folder: str, largest: int) -> None:
        """Read the model; calls will have `largest` sentences at most."""

    def embed(self, sentences: list[list[str]]) -> object:
        """One call as the peer's users make it; what it gives is not looked at."""

    def vectors(self, sentences: list[list[str]]) -> list[Any]:
        """All layers of each sentence, (L + 1, T, D), from a zero start, as nested lists."""


def main(module: str, folder: str, threads: int, largest: int) -> None:
    """Load the model, then answer while there are lines."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # whatever libraries print must not mix with the answers
    runner: Runner = import_module(module).Runner(threads)
    begin = time.perf_counter()
    runner.load(folder, largest)
    seconds = time.perf_counter() - begin
    facts = {"versions": runner.versions, "load_seconds": round(seconds, 3)}
    answers.write(json.dumps(facts) + "\n")
    for line in sys.stdin:
        answers.write(json.dumps(answer(runner, json.loads(line))) + "\n")


def answer(runner: Runner, asked: dict[str, Any]) -> dict[str, Any]:
    """To one line."""
    if "calls" in asked:
        begin = time.perf_counter()
        for sentences in asked["calls"]:
            runner.embed(sentences)
        return {"seconds": time.perf_counter() - begin}
    if "vectors" in asked:
        return {"vectors": runner.vectors(asked["vectors"])}
    return {"peak_mb": peak_mb()}


def peak_mb() -> int:
    """The most memory held so far; see relmo's own for why not `getrusage`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 // 10**6
    return 0


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    try:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    except Exception as error:
        sys.exit(shorten(f"{type(error).__name__}: {error}", 300))  # messages may have many lines
