"""What a run leaves behind for reports: run.json, sealed, and metrics.jsonl."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import relmo
from relmo.errors import WeightError
from relmo.files import explain, read_json, replacing
from relmo.train.distributed import World


def write_record(path: Path, facts: dict[str, Any], world: World | None = None) -> None:
    """Write run.json: the facts, what they were made with, and a seal over both."""
    made_with = {"versions": versions(), "hardware": hardware(world or World())}
    record = {**facts, **made_with, "commit": commit()}
    record = json.loads(json.dumps(record))
    record["seal"] = seal_of(record)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def read_record(path: Path) -> dict[str, Any]:
    """Read run.json; a record that was changed by hand is an error."""
    record = read_json(path)
    check_record(record, path)
    return record


def check_record(record: Mapping[str, Any], where: object) -> None:
    """Raise WeightError, which names `where`, unless the record's checksum matches."""
    if "seal" not in record:
        raise WeightError(f"{where}: holds no seal, so it is no record of relmo's; move it away")
    if record["seal"] != seal_of(record):
        raise WeightError(
            f"{where}: its seal does not hold: it was changed after the run; run again"
        )


def seal_of(record: Mapping[str, Any]) -> str:
    """A hash over everything in a record but the seal."""
    rest = {key: value for key, value in record.items() if key != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def append_metrics(path: Path, values: dict[str, Any]) -> None:
    """Add one line to metrics.jsonl."""
    with explain(path), path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(values) + "\n")


def drop_metrics_after(path: Path, step: int, *, is_over: bool = False) -> None:
    """Forget lines of steps that a resumed run will make again, and a line that was torn.

    Args:
        path: metrics.jsonl.
        step: the last step that is done.
        is_over: that step was the run's last, whose scores will be made again.
    """
    if not path.is_file():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            values = json.loads(line)
            is_last_score = is_over and values["step"] == step and "loss" not in values
            if values["step"] <= step and not is_last_score:
                kept.append(line)
        except (ValueError, KeyError):
            break
    with replacing(path) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")


def read_curve(path: Path, score: str) -> dict[str, list[float]]:
    """How a score went, from metrics.jsonl: the steps at which it was measured, and its values."""
    with path.open(encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    measured = [line for line in lines if score in line]
    return {"step": [v["step"] for v in measured], score: [round(v[score], 4) for v in measured]}


def versions() -> dict[str, str]:
    """What the run was made with."""
    return {
        "relmo": relmo.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": str(np.__version__),
    }


def hardware(world: World) -> str:
    """What the run was made on: the device that it used, not the best there is."""
    each = f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
    if world.device.type == "cuda":
        each = torch.cuda.get_device_name(world.device)
    return each if world.size == 1 else f"{world.size} x {each}"


def commit() -> str:
    """The source's commit where it lies in a git repository, else empty."""
    here = Path(__file__).parent
    try:
        command = ["git", "-C", str(here), "rev-parse", "HEAD"]
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip()
