"""A task model's recurrent layer on a GPU: one kernel each way, beside cuDNN.

    python benchmarks/bench_task_layers.py [--seconds 1]

Forward and backward of one layer that reads both ways, at the shapes of the tasks' recipes;
interleaved, medians. Also: the CRF's loss.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

import torch

from relmo.kernels.device import OVERRIDE
from relmo.nn.blocks.crf import Crf
from relmo.nn.blocks.encoder import RecurrentEncoder

SHAPES = {  # kind, sentences, longest, width, features
    "ner": ("lstm", 32, 40, 256, 200),
    "snli": ("lstm", 64, 30, 300, 300),
    "sst": ("lstm", 32, 40, 900, 300),
    "coref": ("lstm", 40, 50, 150, 200),
    "squad": ("gru", 45, 300, 200, 90),
    "squad, large batches": ("gru", 96, 300, 200, 90),
}


def median_ms(runs: dict[str, Callable[[], None]], seconds: float) -> dict[str, float]:
    """Milliseconds of each, in turn, after a warm-up."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for name, run in runs.items():
        os.environ[OVERRIDE] = name
        for _ in range(3):
            run()
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        for name, run in runs.items():
            os.environ[OVERRIDE] = name
            torch.cuda.synchronize()
            start = time.perf_counter()
            run()
            torch.cuda.synchronize()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in times.items()}


def layer_run(kind: str, B: int, T: int, width: int, features: int) -> Callable[[], None]:
    """One step of a layer."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(T // 3, T + 1, (B,), generator=generator)
    encoder = RecurrentEncoder(width, features, kind=kind).cuda()
    x = torch.randn(B, T, width, device="cuda", requires_grad=True)

    def run() -> None:
        encoder(x, lengths).sum().backward()

    return run


def crf_run(B: int, T: int, K: int) -> Callable[[], None]:
    """One step of a CRF."""
    crf = Crf(K).cuda()
    scores = torch.randn(B, T, K, device="cuda", requires_grad=True)
    tags = torch.zeros(B, T, dtype=torch.long, device="cuda")
    mask = torch.ones(B, T, dtype=torch.bool, device="cuda")

    def run() -> None:
        crf.loss(scores, tags, mask).sum().backward()

    return run


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="Recurrent layers of tasks on a GPU.")
    parser.add_argument("--seconds", type=float, default=1.0)
    seconds = parser.parse_args().seconds
    runs = {name: layer_run(*shape) for name, shape in SHAPES.items()}
    runs["CRF of 9 tags"] = crf_run(32, 40, 9)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    print("| | torch, ms | one kernel, ms | ratio |\n|---|---|---|---|")
    for name, run in runs.items():
        found = median_ms({"reference": run, "": run}, seconds)
        plain, ours = found["reference"], found[""]
        print(f"| {name} | {plain:.2f} | {ours:.2f} | {plain / ours:.1f} |", flush=True)


if __name__ == "__main__":
    main()
