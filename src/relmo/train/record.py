"""What a run leaves behind for reports: run.json, sealed, and metrics.jsonl."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import torch

import relmo
from relmo.errors import WeightError
from relmo.files import replacing


def write_record(path: Path, facts: dict[str, Any]) -> None:
    """Write run.json: the facts, what they were made with, and a seal over both."""
    record = {**facts, "versions": versions(), "hardware": hardware(), "commit": commit()}
    record = json.loads(json.dumps(record))
    record["seal"] = seal_of(record)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def read_record(path: Path) -> dict[str, Any]:
    """Read run.json; a record that was changed by hand is an error."""
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if record.get("seal") != seal_of(record):
        raise WeightError(
            f"{path}: its seal does not hold: it was changed after the run; run again"
        )
    return record


def seal_of(record: dict[str, Any]) -> str:
    """A hash over everything in a record but the seal."""
    rest = {key: value for key, value in record.items() if key != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def append_metrics(path: Path, values: dict[str, Any]) -> None:
    """Add one line to metrics.jsonl."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(values) + "\n")


def drop_metrics_after(path: Path, step: int) -> None:
    """Forget lines of steps that a resumed run will make again, and a line that was torn."""
    if not path.is_file():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except (ValueError, KeyError):
            break
    with replacing(path) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")


def versions() -> dict[str, str]:
    """What the run was made with."""
    return {
        "relmo": relmo.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": str(np.__version__),
    }


def hardware() -> str:
    """What the run was made on."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"


def commit() -> str:
    """The source's commit where it lies in a git repository, else empty."""
    here = Path(__file__).parent
    try:
        command = ["git", "-C", str(here), "rev-parse", "HEAD"]
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except OSError:
        return ""
    return found.stdout.strip()
