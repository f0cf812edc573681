"""A finished run becomes a model to share: a folder that needs nothing of the machine it is from.

OUTPUT/task.json           what it is; its ELMo is named, not where that was
OUTPUT/words.json          words that have a static vector
OUTPUT/best.safetensors    the weights, matrices in 8 bits per row unless asked otherwise
OUTPUT/run.json            the record of the run without what only a report needs, and `release`:
                           name, licence, data and their terms, storage, scores of other seeds
OUTPUT/SHA256SUMS          checksums of these four; those of the first three are verified by loading
OUTPUT/README.md           the model card
OUTPUT/LICENSE             where a text was given

`relmo.load` takes it by its path or, from an installed package, by name (docs/formats.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from relmo.config import check_choice
from relmo.elmo import Elmo
from relmo.errors import ConfigError, ModelNotFound
from relmo.files import SEAL, checksum, replacing_folder, sha256, write_json
from relmo.tasks.installed import task_facts
from relmo.tasks.labelled import AnyTask
from relmo.tasks.model_card import About, task_model_card
from relmo.tasks.predictor import Predictor
from relmo.tasks.run import CARD, WORDS, TaskCard, load_task
from relmo.tasks.sources import read_examples
from relmo.tasks.tables import NO_COLUMNS
from relmo.training.run import Run, read_record
from relmo.weights.checksums import SUMS, write_sums
from relmo.weights.safetensors_files import pack

TaskStorage = Literal["int8", "float16", "float32"]
"""How a task model's matrices are stored; vectors are always float32."""
SMALL = 4096
"""Values of a matrix that stays float32: smaller ones would save nothing."""
EXACT = ".transitions"
"""How the names of matrices end that stay float32 at any size: a CRF adds its transitions up over a
sentence, and would add up their errors."""
RECORDED = (
    "task", "data", "vectors", "elmo", "recipe", "seed", "parameters", "steps", "best_step",
    "seconds", "mixes", "results", "curve", "versions", "hardware", "commit",
)  # fmt: skip
"""Keys of run.json that are kept."""
LICENCE, README = "LICENSE", "README.md"


def export_task(
    run: str | Path,
    output: str | Path,
    about: About,
    *,
    storage: TaskStorage = "int8",
    licence_text: str = "",
    others: Sequence[str | Path] = (),
    test: str | Path | None = None,
    elmo: Elmo | str | Path | None = None,
) -> dict[str, Any]:
    """Write a folder to share from a finished run, and return what `describe_task` says of it.

    Args:
        run: folder of the run.
        output: folder to write; a model that was exported to it before is replaced.
        about: its name and what the model card says beyond the run's record.
        storage: of the weights: "int8" and "float16" round them.
        licence_text: for the file LICENSE; without it there is none.
        others: folders of runs that differ by their seed alone, whose scores the card shows too.
        test: labelled file on which the weights are scored as they are stored.
        elmo: the ELMo model, its name or its folder, if it has moved. It is needed for the example
            and for `test`.
    """
    source, target = Run(Path(run)), Path(output)
    check_choice("storage", storage, get_args(TaskStorage))
    _check_target(target, source.folder)
    card, record = TaskCard.read(source.folder), _read_run(source)
    best = source.read_best()
    assert best is not None  # a finished run has scored
    release: dict[str, Any] = {
        "name": about.name,
        "language": about.language,
        "licence": about.licence,
        "sources": [asdict(each) for each in about.sources],
        "storage": storage,
        "runs": [_other_run(Run(Path(each)), record) for each in others],
    }
    with replacing_folder(target) as stage:
        shared = Run(stage)
        shared.write_best(store(source.read_weights(), storage), best)
        _named(card).write(stage)
        example = None
        if about.example or test is not None:
            place = card.elmo["place"] if card.elmo else None
            task = load_task(stage, elmo=elmo or place, device="cpu")
            if about.example:
                example = Predictor(task, about.name)(*about.example)
            if test is not None:
                release["stored"] = _scores(task, Path(test), card, record)
        kept = {key: record[key] for key in RECORDED if key in record}
        _write_sealed(shared.record_path, {**kept, "release": release})
        write_sums(stage, [CARD, WORDS, shared.best_path.name, shared.record_path.name])
        if licence_text:
            (stage / LICENCE).write_text(licence_text, encoding="utf-8")
        text = task_model_card(about, task_facts(stage, about.name), example)
        (stage / README).write_text(text, encoding="utf-8")
    return task_facts(target, about.name)


def store(tensors: Mapping[str, Tensor], storage: TaskStorage) -> dict[str, Tensor]:
    """The weights as they are stored: large matrices in 8 or 16 bits, all else as it is."""
    large = {
        name: tensor
        for name, tensor in tensors.items()
        if tensor.ndim > 1 and tensor.numel() >= SMALL and not name.endswith(EXACT)
    }
    if storage == "int8":
        return {**{n: t for n, t in tensors.items() if n not in large}, **pack(large, "int8")}
    if storage == "float16":
        return {n: t.to(torch.float16) if n in large else t for n, t in tensors.items()}
    return dict(tensors)


def _check_target(target: Path, source: Path) -> None:
    """Raise ConfigError rather than replace a folder that is no exported model."""
    if target.resolve() == source.resolve():
        raise ConfigError(f"{target} is the run itself; choose another output")
    if not target.exists():
        return
    is_exported = target.is_dir() and (target / CARD).is_file() and (target / SUMS).is_file()
    if not is_exported and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"{target} exists and is no exported task model; choose another output")


def _read_run(run: Run) -> dict[str, Any]:
    """The record of a finished run of a task."""
    if not run.record_path.is_file():
        raise ModelNotFound(
            f"{run.folder} is unfinished: it has no {run.record_path.name}; finish it with "
            f"relmo train … --resume"
        )
    return read_record(run.record_path)


def _scores(
    task: AnyTask, test: Path, card: TaskCard, record: Mapping[str, Any]
) -> dict[str, float]:
    """Scores on the file that the run was tested on."""
    files = record["data"]["files"]
    if sha256(test) not in [files[part]["sha256"] for part in files if part != "train"]:
        raise ConfigError(f"{test} is not the file that the run was tested on; give that one")
    examples = read_examples(type(task), test, NO_COLUMNS, card.facts.get("source", {}))
    found = {**task.score_on(examples), **task.calibration_error(examples)}
    return {f"test_{name}": value for name, value in found.items()}


def _other_run(run: Run, record: Mapping[str, Any]) -> dict[str, Any]:
    """Seed and scores of a run that differs from the one of this record by its seed alone."""
    other = _read_run(run)
    files = [each["data"]["files"] for each in (record, other)]
    recipes = [{**each["recipe"], "training": None} for each in (record, other)]
    same = {
        "task": other["task"] == record["task"],
        "data": files[0] == files[1],
        "ELMo": other["elmo"] == record["elmo"],
        "recipe": recipes[0] == recipes[1],
    }
    if different := [what for what, is_same in same.items() if not is_same]:
        raise ConfigError(f"{run.folder} differs from the first run in its {different[0]}")
    if other["seed"] == record["seed"]:
        raise ConfigError(f"{run.folder} has the seed of the first run, {record['seed']}")
    return {"seed": other["seed"], "results": other["results"]}


def _named(card: TaskCard) -> TaskCard:
    """The card with the name of its ELMo where the place on this machine was."""
    if card.elmo is None:
        return card
    if not card.elmo["name"]:
        raise ConfigError("the run's ELMo has no name by which others could load it; give it one")
    return replace(card, elmo={**card.elmo, "place": card.elmo["name"]})


def _write_sealed(path: Path, record: Mapping[str, Any]) -> None:
    write_json(path, {**record, SEAL: checksum(record)})
