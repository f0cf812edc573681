"""Task models by name: find one, list the installed ones, describe one from its files.

`relmo models` and `relmo info` show what these functions return; ELMos are listed by
`weights/installed.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from relmo.elmo import Elmo
from relmo.errors import ModelNotFound, RelmoError, WeightError
from relmo.files import sha256
from relmo.tasks.chunk_tags import is_chunked, split_tag
from relmo.tasks.registry import find_task
from relmo.tasks.run import WORDS, TaskCard
from relmo.training.run import Run, read_record
from relmo.weights.checksums import read_sums
from relmo.weights.find import FORMATS, UNTRAINED, find_model, is_task_model, known_models
from relmo.weights.installed import files_in, packages_of_models
from relmo.weights.safetensors_files import SCALE, tensor_bytes, tensor_shapes

PARTS = {
    "word vectors": re.compile(r"(.+\.)?static\.weight(\.scale)?"),
    "letters": re.compile(r"(.+\.)?tokens\.letters\..+"),
    "biLM": re.compile(r"bilm\..+"),
}
"""Parts of a model's weights -> the names of their tensors; all others are the network's."""


def find_task_model(name: str | Path) -> Path:
    """The folder of a task model, or of a task's run, by name or path."""
    if str(name) != UNTRAINED:
        folder = find_model(name, kind="task")
        if is_task_model(folder) or not any(each.detect(folder) for each in FORMATS.values()):
            return folder  # what is no model at all is refused where it is read
    raise ModelNotFound(
        f"{name} is an ELMo, not a task model; `relmo embed` and Elmo.from_pretrained read with "
        f"it. `relmo models` lists task models, `relmo train` makes one"
    )


# ── the list ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class InstalledTask:
    """What a list of task models says about one of them; weights are not read."""

    name: str
    source: str
    """Where it comes from: relmo itself, or a package with its version."""
    task: str | None = None
    elmo: str | None = None
    """The ELMo that it reads with."""
    has_elmo: bool = False
    """Whether a model of that name is installed."""
    score: str | None = None
    """The score that matters most to the task: "test_f1"."""
    value: float | None = None
    bytes: int = 0
    language: str | None = None
    licence: str | None = None
    folder: str | None = None
    problem: str | None = None
    """Why it cannot be used."""


def installed_tasks() -> list[InstalledTask]:
    """Every task model that needs no path, by name."""
    packages, found = packages_of_models(), []
    elmos = set(known_models("ELMo"))
    for name in known_models("task"):
        source = packages.get(name, "relmo")
        try:
            found.append(_listed(name, source, elmos))
        except RelmoError as error:
            found.append(InstalledTask(name, source, problem=str(error)))
    return found


def _listed(name: str, source: str, elmos: set[str]) -> InstalledTask:
    folder = find_model(name)
    card, record = TaskCard.read(folder), _record(folder)
    elmo = card.elmo["name"] if card.elmo else None
    release = record["release"]
    scores = {**record["results"], **release.get("stored", {})}  # those of the weights in the file
    score, value = headline(card.task, scores) or (None, None)
    return InstalledTask(
        name=name,
        source=source,
        task=card.task,
        elmo=elmo,
        has_elmo=elmo is None or elmo in elmos,
        score=score,
        value=value,
        bytes=sum(path.stat().st_size for path in files_in(folder)),
        language=release.get("language") or None,
        licence=release.get("licence") or None,
        folder=str(folder),
    )


def headline(task: str, results: Mapping[str, float]) -> tuple[str, float] | None:
    """The score by which a task's models are chosen, on the test part if it was scored."""
    own = find_task(task).score.removeprefix("dev_")
    names = (f"test_{own}", "test_accuracy", f"dev_{own}", "dev_accuracy")
    return next(((name, results[name]) for name in names if name in results), None)


# ── one model ───────────────────────────────────────────────────────────────────────────────────


def describe_task(name: str | Path) -> dict[str, Any]:
    """Task, labels, ELMo, scores, data, licence, size by part and checksums of a task model."""
    folder = find_task_model(name)
    facts = task_facts(folder, str(name))
    if facts["elmo"] is not None:
        facts["elmo"]["problem"] = _elmo_problem(facts["elmo"])
    return facts


def task_facts(folder: Path, name: str) -> dict[str, Any]:
    """What the files of a task model say; its ELMo is not looked for."""
    card, record = TaskCard.read(folder), _record(folder)
    release, runs = record.pop("release"), []
    if others := release.get("runs", []):
        runs = [{"seed": record["seed"], "results": record["results"]}, *others]
    return {
        "model": release.get("name") or Path(name).name,
        "task": card.task,
        "labels": labels_of(card.facts),
        "elmo": dict(card.elmo) if card.elmo else None,
        "results": record["results"],
        "stored": release.get("stored", {}),
        "runs": runs,
        **_over_seeds(runs),
        "calibration": dict(card.calibration),
        "data": record.get("data", {}),
        "vectors": record.get("vectors"),
        "sources": release.get("sources", []),
        "language": release.get("language", ""),
        "licence": release.get("licence", "") or "not stated",
        "storage": release.get("storage", "float32"),
        "words": len(card.words),
        "training": record,
        **_sizes(folder),
    }


def labels_of(facts: Mapping[str, Any]) -> list[str]:
    """The labels that a model predicts, by what its card says; [] where a task has none."""
    found = [*facts.get("labels", ()), *facts.get("tags", ())]
    if is_chunked(found):
        found = [label for label in (split_tag(tag)[1] for tag in found) if label]
    return sorted(set(found))


def _record(folder: Path) -> dict[str, Any]:
    """The record of the run; of an unfinished one, its best scores. `release` may be empty."""
    run = Run(folder)
    if run.record_path.is_file():
        record = read_record(run.record_path)
        record = {"release": {}, "results": {}, **record}
        if all(isinstance(record[key], dict) for key in ("release", "results")):
            return record
        raise WeightError(f"{run.record_path} is not the record of a task's run")
    best = run.read_best()
    return {"release": {}, "results": {} if best is None else dict(best.scores)}


def _over_seeds(runs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Mean and standard deviation of each score that all of several runs have."""
    if not runs:
        return {"mean": {}, "deviation": {}}
    shared = [name for name in runs[0]["results"] if all(name in run["results"] for run in runs)]
    values = {name: [run["results"][name] for run in runs] for name in shared}
    return {
        "mean": {name: mean(found) for name, found in values.items()},
        "deviation": {name: stdev(found) for name, found in values.items()},
    }


def _sizes(folder: Path) -> dict[str, Any]:
    """Bytes by part, and size and checksum of each file, as `describe_folder` has them of ELMos."""
    weights = Run(folder).best_path
    parts: dict[str, int] = {"network": 0}
    for tensor, size in tensor_bytes(weights).items():
        part = next((part for part, names in PARTS.items() if names.fullmatch(tensor)), "network")
        parts[part] = parts.get(part, 0) + size
    shapes = tensor_shapes(weights)
    scales = {name + SCALE for name in shapes} & shapes.keys()
    counts = [math.prod(shape) for name, shape in shapes.items() if name not in scales]
    paths = sorted(files_in(folder))
    parts["words"] = (folder / WORDS).stat().st_size
    parts["other files"] = sum(path.stat().st_size for path in paths) - sum(parts.values())
    listed = read_sums(folder)
    files = {}
    for path in paths:
        checksum = sha256(path)
        matches = checksum == listed[path].lower() if path in listed else None
        files[path.name] = {"bytes": path.stat().st_size, "sha256": checksum, "matches": matches}
    return {
        "parameters": sum(counts),
        "parts": parts,
        "folder": str(folder),
        "format": "task",
        "files": files,
    }


def _elmo_problem(known: Mapping[str, str]) -> str | None:
    """Why the ELMo that a model reads with cannot be used; None if it is there."""
    try:
        found = Elmo.from_pretrained(known["place"], device="cpu").fingerprint()
    except RelmoError as error:
        return str(error)
    other = f"the installed {known['name']} is another version; install the one it was trained with"
    return None if found == known["fingerprint"] else other
