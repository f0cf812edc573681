"""Load time and peak memory, each in a process of its own: `python -m relmo.lab.bench.fresh`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from relmo.errors import WeightError
from relmo.lab.bench.memory import peak_mb
from relmo.lab.bench.sentences import Words


def measure_fresh(
    model: str, precision: str, threads: int, sentences: Sequence[Words]
) -> dict[str, Any]:
    """Start a process that loads the model and embeds the sentences as one call."""
    job = json.dumps([model, precision, threads, sentences])
    command = [sys.executable, "-m", "relmo.lab.bench.fresh"]
    done = subprocess.run(command, input=job, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise WeightError(f"a fresh process could not load {model} in {precision}: {why}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """The process: reads its job from standard input, prints one JSON line."""
    model, precision, threads, sentences = json.load(sys.stdin)
    begin = time.perf_counter()
    import torch

    from relmo.elmo import Elmo

    imported = time.perf_counter()
    torch.set_num_threads(threads)
    with_torch = peak_mb()
    begin_load = time.perf_counter()
    elmo = Elmo.from_pretrained(model, precision=precision, device="cpu", start="zero")
    loaded = time.perf_counter()
    elmo.embed([["One"]])  # packs the weights
    ready = time.perf_counter()
    elmo.embed(sentences)
    found = {
        "import_seconds": round(imported - begin, 3),
        "load_seconds": round(loaded - begin_load, 3),
        "first_sentence_seconds": round(ready - loaded, 3),
        "peak_mb": peak_mb(),
        "peak_mb_before_loading": with_torch,
        "weights_mb": sum(p.numel() for p in elmo.bilm.parameters()) * 4 // 10**6,
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
