"""Train many task models side by side on one machine, from a list of experiments.

    python scripts/run_many.py experiments/tasks.toml --data DATA --vectors glove-100d.txt.xz \
        --output runs --slots 12 --seconds 1500 --only ner,snli

The list says what to train: a task, its data's folder below DATA, ELMo models, seeds, settings.

    [[runs]]
    task = "ner"                     # also the name of the recipe
    data = "conll2003"
    models = ["none", "relmo-en-base"]
    seeds = [0, 1, 2]
    set = ["input.place=both"]       # one run per combination of models, seeds and `vary`
    vary = ["input.l2=1", "input.l2=0.1"]

A run's folder is OUTPUT/NAME, NAME made of all that sets it apart; one that is finished is passed
over, so the same call goes on where it was stopped. When the seconds are over, what still runs is
told to end. Needs the standard library alone, and what `relmo train` needs. On a GPU
start its multi-process service first (nvidia-cuda-mps-control -d): small kernels then overlap.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
KEYS = {"task", "data", "models", "seeds", "set", "vary", "name"}
GRACE = 8.0
"""Seconds between telling a run to end and ending it."""
PAUSE = 0.2


@dataclass(frozen=True)
class Run:
    """One model to train."""

    name: str
    task: str
    data: str
    model: str
    seed: int
    changes: tuple[str, ...]

    def command(self, options: argparse.Namespace) -> list[str]:
        """What trains it."""
        command = [
            sys.executable, "-m", "relmo", "train", self.task, "--json",
            "--data", str(options.data / self.data), "--output", str(options.output / self.name),
            "--elmo", self.model, "--cache", str(options.cache or options.output / "cache"),
        ]  # fmt: skip
        if options.vectors is not None:
            command += ["--vectors", str(options.vectors)]
        return command + [part for change in self.changes for part in ("--set", change)]


def read_runs(path: Path, folders: dict[str, str]) -> list[Run]:
    """All runs of a list, in its order: of each entry the first seed of everything comes first.

    Args:
        path: of the list.
        folders: models that lie in folders, by name.
    """
    found: dict[str, Run] = {}
    for number, entry in enumerate(tomllib.loads(path.read_text(encoding="utf-8"))["runs"], 1):
        unknown = entry.keys() - KEYS
        if unknown or not {"task", "data", "models", "seeds"} <= entry.keys():
            raise SystemExit(f"{path}: entry {number} has {sorted(entry)}; its keys are {KEYS}")
        for seed, vary, model in product(entry["seeds"], entry.get("vary", [""]), entry["models"]):
            run = _run(entry, seed, vary, model, folders)
            if run.name in found:
                raise SystemExit(f"{path}: entry {number} makes {run.name} a second time")
            found[run.name] = run
    return list(found.values())


def _run(entry: dict[str, Any], seed: int, vary: str, model: str, folders: dict[str, str]) -> Run:
    changes = [*entry.get("set", []), *([vary] if vary else [])]
    label = "-".join(re.sub(r"[^\w.]+", "-", change) for change in changes)
    parts = [entry.get("name", entry["task"]), model.removeprefix("relmo-en-"), label, str(seed)]
    return Run(
        name="-".join(part for part in parts if part),
        task=entry["task"],
        data=entry["data"],
        model=folders.get(model, model),
        seed=seed,
        changes=(f"training.seed={seed}", *changes),
    )


def start(run: Run, options: argparse.Namespace) -> subprocess.Popen[bytes]:
    """Begin a run, anew if it was stopped; its log stands beside its folder."""
    folder = options.output / run.name
    if not (folder / "checkpoint").exists():
        (folder / "best.safetensors").unlink(missing_ok=True)  # which is not trained over
    with (options.output / f"{run.name}.log").open("wb") as log:
        return subprocess.Popen(
            run.command(options), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            env={**os.environ, **ONE_THREAD}, start_new_session=True,
        )  # fmt: skip


def last_score(run: Run, output: Path) -> str:
    """The last line of a run's log that holds a score, else its last line."""
    lines = (output / f"{run.name}.log").read_text(errors="replace").splitlines()
    scored = [line for line in lines if '"dev_' in line]
    return (scored or lines or [""])[-1][:300]


def end(going: dict[Run, subprocess.Popen[bytes]]) -> None:
    """Tell what still runs to end, ever more firmly."""
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        for process in going.values():
            if process.poll() is None:
                process.send_signal(sign)
        until = time.monotonic() + GRACE / 2
        while time.monotonic() < until and any(p.poll() is None for p in going.values()):
            time.sleep(PAUSE)


def train_all(runs: list[Run], options: argparse.Namespace) -> None:
    """Keep as many runs going as there are slots, until all are done or time is over."""
    begun = time.monotonic()
    waiting = [run for run in runs if not (options.output / run.name / "run.json").exists()]
    print(f"{len(runs) - len(waiting)} of {len(runs)} runs are done", flush=True)
    going: dict[Run, subprocess.Popen[bytes]] = {}
    try:
        while (waiting or going) and time.monotonic() - begun < options.seconds:
            while waiting and len(going) < options.slots:
                run = waiting.pop(0)
                going[run] = start(run, options)
            for run in [run for run, process in going.items() if process.poll() is not None]:
                code, seconds = going.pop(run).returncode, time.monotonic() - begun
                score = last_score(run, options.output)
                print(f"{seconds:.0f} s  {run.name}  exit {code}  {score}", flush=True)
            time.sleep(PAUSE)
    finally:
        end(going)
    for run in (*going, *waiting):
        print(f"not done: {run.name}", flush=True)


def main() -> None:
    """Read the list and train."""
    parser = argparse.ArgumentParser(description="Train many task models side by side.")
    parser.add_argument("runs", type=Path, help="list of experiments, TOML")
    parser.add_argument("--data", type=Path, required=True, help="folder of the tasks' folders")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--cache", type=Path, help="of ELMo's layers; OUTPUT/cache unless given")
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--only", default="", metavar="TEXT,…", help="runs whose names begin so")
    parser.add_argument("--slots", type=int, default=1, help="runs side by side")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--by-seed", action="store_true", help="the first seed of all runs first")
    parser.add_argument("--list", action="store_true", help="print the runs, train none")
    options = parser.parse_args()
    runs = read_runs(options.runs, dict(each.split("=", 1) for each in options.model))
    runs = [run for run in runs if run.name.startswith(tuple(options.only.split(",")))]
    if options.by_seed:
        runs.sort(key=lambda run: run.seed)
    if options.list:
        print("\n".join(run.name for run in runs))
        return
    options.output.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    train_all(runs, options)


if __name__ == "__main__":
    main()
