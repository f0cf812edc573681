"""Train many task models in parallel on one machine, from a list of experiments.

    python scripts/run_many.py experiments/tasks.toml --data DATA --vectors glove-100d.txt.xz \
        --output runs --slots 12 --seconds 1500 --only ner,snli --collection experiments/tasks.jsonl

The list says what to train: a task, its folder of data below DATA, ELMo models, seeds, settings.

    [[runs]]
    task = "ner"                     # also the name of the recipe
    data = "conll2003"
    models = ["none", "relmo-en-base"]
    seeds = [0, 1, 2]
    set = ["input.place=both"]       # one run per combination of models, seeds and `vary`
    vary = ["input.l2=1", "input.l2=0.1"]
    recipe = "ner-open"              # instead of the task's own
    vectors = false                  # without --vectors

A run's folder is OUTPUT/NAME; NAME is made of everything that sets the run apart. Finished runs are
skipped, so the same command continues after an interruption. When the time is up, running processes
are stopped. On a GPU start its multi-process service first (nvidia-cuda-mps-control -d), so that
small kernels overlap.

A collection is a file of many records, one per line, which `relmo report` reads like run folders:
runs in it count as finished, and records of finished runs are appended to it. Without a list, only
that is done, for every run below OUTPUT:

    python scripts/run_many.py --output runs/probes --collection experiments/probes.jsonl
"""

from __future__ import annotations

import argparse
import json
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
KEYS = {"task", "data", "models", "seeds", "set", "vary", "name", "recipe", "vectors"}
GRACE = 8.0
"""Seconds between interrupting a run and killing it."""
PAUSE = 0.2


@dataclass(frozen=True)
class Run:
    """A model to train."""

    name: str
    task: str
    data: str
    model: str
    seed: int
    changes: tuple[str, ...]
    recipe: str = ""
    has_vectors: bool = True

    def command(self, options: argparse.Namespace) -> list[str]:
        """The command that trains it."""
        command = [
            sys.executable, "-m", "relmo", "train", self.task, "--json",
            "--data", str(options.data / self.data), "--output", str(options.output / self.name),
            "--elmo", self.model, "--cache", str(options.cache or options.output / "cache"),
        ]  # fmt: skip
        if self.recipe:
            command += ["--recipe", self.recipe]
        if options.vectors is not None and self.has_vectors:
            command += ["--vectors", str(options.vectors)]
        return command + [part for change in self.changes for part in ("--set", change)]


def read_runs(path: Path, folders: dict[str, str]) -> list[Run]:
    """All runs of a list, in its order; of each entry all combinations with the first seed first.

    Args:
        path: the list.
        folders: folders of models, by name.
    """
    found: dict[str, Run] = {}
    for number, entry in enumerate(tomllib.loads(path.read_text(encoding="utf-8"))["runs"], 1):
        unknown = entry.keys() - KEYS
        if unknown or not {"task", "data", "models", "seeds"} <= entry.keys():
            raise SystemExit(
                f"{path}: entry {number} has the keys {sorted(entry)}, expected {sorted(KEYS)}"
            )
        for seed, vary, model in product(entry["seeds"], entry.get("vary", [""]), entry["models"]):
            run = _run(entry, seed, vary, model, folders)
            if run.name in found:
                raise SystemExit(f"{path}: entry {number} repeats the run {run.name}")
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
        recipe=entry.get("recipe", ""),
        has_vectors=entry.get("vectors", True),
    )


def start(run: Run, options: argparse.Namespace) -> subprocess.Popen[bytes]:
    """Start a run, or resume it if it has a checkpoint; its log is beside its folder."""
    folder, command = options.output / run.name, run.command(options)
    if any(folder.glob("checkpoint/step-*")):
        command.append("--resume")
    else:
        (folder / "best.safetensors").unlink(missing_ok=True)  # training does not overwrite it
    with (options.output / f"{run.name}.log").open("wb") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            env={**os.environ, **ONE_THREAD}, start_new_session=True,
        )  # fmt: skip


def last_score(run: Run, output: Path) -> str:
    """The last line of a run's log that contains a score, otherwise its last line."""
    lines = (output / f"{run.name}.log").read_text(errors="replace").splitlines()
    scored = [line for line in lines if '"dev_' in line]
    return (scored or lines or [""])[-1][:300]


def stop(running: dict[Run, subprocess.Popen[bytes]]) -> None:
    """Stop all processes: interrupt, then terminate, then kill."""
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        for process in running.values():
            if process.poll() is None:
                process.send_signal(sign)
        until = time.monotonic() + GRACE / 2
        while time.monotonic() < until and any(p.poll() is None for p in running.values()):
            time.sleep(PAUSE)


def train_all(runs: list[Run], options: argparse.Namespace) -> None:
    """Keep as many runs going as there are slots, until all are finished or the time is up."""
    begun = time.monotonic()
    done = read_collection(options.collection)
    done |= {run.name for run in runs if (options.output / run.name / "run.json").exists()}
    waiting = [run for run in runs if run.name not in done]
    print(f"{len(runs) - len(waiting)} of {len(runs)} runs are finished", flush=True)
    running: dict[Run, subprocess.Popen[bytes]] = {}
    try:
        while (waiting or running) and time.monotonic() - begun < options.seconds:
            while waiting and len(running) < options.slots:
                run = waiting.pop(0)
                running[run] = start(run, options)
            for run in [run for run, process in running.items() if process.poll() is not None]:
                code, seconds = running.pop(run).returncode, time.monotonic() - begun
                score = last_score(run, options.output)
                print(f"{seconds:.0f} s  {run.name}  exit {code}  {score}", flush=True)
            time.sleep(PAUSE)
    finally:
        stop(running)
    for run in (*running, *waiting):
        print(f"not finished: {run.name}", flush=True)


def read_collection(path: Path | None) -> set[str]:
    """Names of the runs in a collection of records."""
    if path is None or not path.exists():
        return set()
    return {json.loads(line)["run"] for line in path.read_text(encoding="utf-8").splitlines()}


def append_records(collection: Path, folder: Path) -> list[str]:
    """Append each run.json below a folder to a collection that lacks it; returns the runs' names.

    Records are copied unchanged: `relmo report` verifies their checksums.
    """
    have, added = read_collection(collection), []
    with collection.open("a", encoding="utf-8") as file:
        for path in sorted(folder.rglob("run.json")):
            if path.parent.name not in have:
                entry = {"run": path.parent.name, "record": json.loads(path.read_text("utf-8"))}
                file.write(json.dumps(entry, separators=(",", ":")) + "\n")
                added.append(path.parent.name)
    return added


def main() -> None:
    """Read the list, train, and append the records of finished runs to the collection."""
    parser = argparse.ArgumentParser(description="Train many task models in parallel.")
    parser.add_argument("runs", type=Path, nargs="?", help="list of experiments (TOML)")
    parser.add_argument("--data", type=Path, help="folder that contains the tasks' folders")
    parser.add_argument("--output", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--vectors", type=Path, help="static word vectors")
    parser.add_argument("--cache", type=Path, help="ELMo's layers [default: OUTPUT/cache]")
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--only", default="", metavar="TEXT,…", help="prefixes of runs' names")
    parser.add_argument("--slots", type=int, default=1, help="runs in parallel [default: 1]")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time limit")
    parser.add_argument("--by-seed", action="store_true", help="the first seed of all runs first")
    parser.add_argument("--collection", type=Path, metavar="FILE", help="records, .jsonl")
    parser.add_argument("--list", action="store_true", help="print the runs and exit")
    options = parser.parse_args()
    if options.runs is not None:
        if options.data is None:
            parser.error("a list of experiments needs --data")
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
    if options.collection is not None:
        added = append_records(options.collection, options.output)
        print(f"records appended to {options.collection}: {len(added)}")


if __name__ == "__main__":
    main()
