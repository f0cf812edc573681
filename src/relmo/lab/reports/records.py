"""run.json -> Run -> Group: what was measured, and which measurements belong together.

Runs of one data set, model, share of the training data and recipe that differ in their seed alone
are a group. Of several groups those with the most seeds count, three being enough, and of these the
development part chooses: the one with the highest mean score.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from relmo.errors import ConfigError, WeightError
from relmo.train.run import read_record

Part = Literal["dev", "test"]
MODELS = "relmo-en-base", "relmo-en-small"
"""What the report is about, in its order; other models come after them by name."""
MEASURES = {
    "squad": "f1", "snli": "accuracy", "srl": "f1", "coref": "f1", "ner": "f1",
    "sst": "accuracy", "sst-phrases": "accuracy", "pos": "accuracy",
}  # fmt: skip
"""By task, in the paper's order, others after them, the score that decides."""
NEEDED = "data", "recipe", "seed", "parameters", "seconds", "results"
"""What the record of a task's run holds at least."""
ELMO_ONLY = "place", "layers", "l2", "elmo_dropout", "finetune"
"""Of a recipe's input: what means nothing to a baseline."""
NO_SETTING = "training.seed", "training.log_every", "training.checkpoint_every", "batch.share"
"""Of a recipe: what is no setting of the model, or stands elsewhere in the record."""

BOUNDS = {
    "training.steps": "updates", "training.epochs": "epochs", "training.minutes": "minutes",
}  # fmt: skip
"""Settings that end a training, and what they count."""
ADDED: Mapping[str, Mapping[str, Any]] = {
    "snli": {
        "model.aligned_by": "all",
        "model.compared_width": 0,
        "model.is_dropout_shared": False,
        "model.temperature": 1.0,
    },
    "sst": {"model.maxout_norm": "batch"},
    "sst-phrases": {"model.maxout_norm": "batch"},
}
"""Settings that some records of a task lack, and how they were run;"""
ADDED_TO_ALL = {"optimizer.bilm_rate": 1.0}
"""those of any task."""
ENOUGH_SEEDS = 3
"""One lucky seed of a setting that was tried once does not beat the mean of so many."""


@dataclass(frozen=True, eq=False)
class Run:
    """A record and where it lies."""

    path: Path
    record: Mapping[str, Any]

    @property
    def task(self) -> str:
        """What was run, empty where the record does not say."""
        return str(self.record.get("task", ""))

    @property
    def elmo(self) -> str:
        """Name of the model; empty for a baseline."""
        return str((self.record.get("elmo") or {}).get("name", ""))

    @property
    def seed(self) -> int:
        """Of a task's run."""
        return int(self.record["seed"])

    @property
    def share(self) -> float:
        """Of the training data that was used, 0 to 1."""
        return float(self.record["data"].get("share", 1.0))

    @property
    def results(self) -> Mapping[str, Any]:
        """Names and numbers."""
        found: Mapping[str, Any] = self.record.get("results", {})
        return found

    def score(self, part: Part) -> float:
        """The figure that decides, of a task."""
        return float(self.results[f"{part}_{MEASURES[self.task]}"])

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The recipe, flat, without what changes nothing: `{"input.place": "both", …}`."""
        flat = {
            f"{section}.{key}": value
            for section, values in self.record["recipe"].items()
            for key, value in values.items()
        }
        idle = [*NO_SETTING]
        if not self.elmo:
            idle += [f"input.{key}" for key in ELMO_ONLY]
        if not (self.elmo and flat.get("input.finetune")):
            idle.append("optimizer.bilm_rate")
        if self.elmo and flat.get("input.layers") == "top":
            idle.append("input.l2")  # one layer has nothing to weigh
        every = {**ADDED_TO_ALL, **ADDED.get(self.task, {}), **flat}
        return {key: value for key, value in every.items() if key not in idle}


@dataclass(frozen=True, order=True)
class Dataset:
    """A task on files of its own."""

    task: str
    name: str
    digest: str
    """Of the checksums of its files."""


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ in their seed alone, by seed."""

    dataset: Dataset
    elmo: str
    share: float
    runs: tuple[Run, ...]

    @property
    def settings(self) -> dict[str, Any]:
        """Which all its runs share."""
        return self.runs[0].settings

    def scores(self, part: Part) -> list[float]:
        """One of each run."""
        return [run.score(part) for run in self.runs]

    def mean(self, part: Part) -> float:
        """Of the runs' scores."""
        return fmean(self.scores(part))


def read_runs(folder: Path) -> list[Run]:
    """Every run.json below a folder, by path; broken ones are named and none is used then."""
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder; give one that holds runs")
    paths = sorted(folder.rglob("run.json"), key=lambda path: path.as_posix())
    if not paths:
        raise ConfigError(f"{folder}: holds no run.json; give a folder that holds runs")
    runs, broken = [], []
    for path in paths:
        try:
            run = Run(path, read_record(path))
            _check(run)
            runs.append(run)
        except WeightError as error:
            broken.append(str(error))
    if broken:
        raise WeightError("\n".join(broken))
    return runs


def is_task(run: Run) -> bool:
    """Whether it is a run of a task that was scored on a test part."""
    return run.task in MEASURES and f"test_{MEASURES[run.task]}" in run.results


def groups_of(runs: Iterable[Run]) -> list[Group]:
    """Runs of tasks together where they differ in their seed alone, in fixed order.

    Of copies, runs with the same seed as well, the first by path counts.
    """
    found: dict[str, dict[int, Run]] = {}
    for run in sorted(filter(is_task, runs), key=_by_seed):
        mark = (run.record.get("elmo") or {}).get("fingerprint", "")
        vectors = (run.record.get("vectors") or {}).get("sha256", "")
        parts = [vars(dataset_of(run)), run.elmo, mark, vectors, run.share, run.settings]
        found.setdefault(json.dumps(parts, sort_keys=True), {}).setdefault(run.seed, run)
    groups = []
    for _, by_seed in sorted(found.items()):
        own = tuple(by_seed.values())
        groups.append(Group(dataset_of(own[0]), own[0].elmo, own[0].share, own))
    return sorted(
        groups, key=lambda group: (*dataset_order(group.dataset), model_order(group.elmo))
    )


def dataset_of(run: Run) -> Dataset:
    """What a task was run on."""
    data = run.record["data"]
    digest = "".join(file["sha256"][:8] for _, file in sorted(data.get("files", {}).items()))
    return Dataset(run.task, str(data["name"]), digest)


def datasets(groups: Iterable[Group]) -> list[Dataset]:
    """Each once, in the paper's order."""
    return sorted({group.dataset for group in groups}, key=dataset_order)


def dataset_order(dataset: Dataset) -> tuple[int, str, str]:
    """The paper's order of tasks."""
    return [*MEASURES].index(dataset.task), dataset.name, dataset.digest


def model_order(name: str) -> tuple[int, str]:
    """The baseline, the report's models, any others by name."""
    known = ["", *MODELS]
    return known.index(name) if name in known else len(known), name


def models(groups: Iterable[Group]) -> list[str]:
    """Names of the ELMo models there are."""
    return sorted({group.elmo for group in groups if group.elmo}, key=model_order)


def main_models(groups: Sequence[Group]) -> list[str]:
    """Those that pictures show: the report's own, or any where there is none of them."""
    every = models(groups)
    return [name for name in every if name in MODELS] or every


def select(
    groups: Iterable[Group],
    dataset: Dataset,
    elmo: str,
    share: float = 1.0,
    keep: Callable[[Group], bool] = lambda _: True,
) -> list[Group]:
    """Groups of a data set and model, the one that the development part chooses first."""
    own = [
        group
        for group in groups
        if (group.dataset, group.elmo, group.share) == (dataset, elmo, share) and keep(group)
    ]
    return sorted(own, key=lambda g: (-min(len(g.runs), ENOUGH_SEEDS), -g.mean("dev")))


def error_reduction(before: float, after: float) -> float:
    """By how much of itself, in percent, the error became less, of scores in percent."""
    return 100 * (after - before) / (100 - before)


def differences(groups: Sequence[Group]) -> list[str]:
    """What sets the first of some groups apart, `place both, l2 0.1`, and what others change."""
    if not groups:
        return []
    keys = sorted({key for group in groups for key in group.settings})
    apart = [key for key in keys if len({json.dumps(g.settings.get(key)) for g in groups}) > 1]
    first = groups[0].settings
    return [
        ", ".join(
            _setting(key, group.settings.get(key))
            for key in apart
            if group is groups[0] or group.settings.get(key) != first.get(key)
        )
        for group in groups
    ]


def describe(group: Group) -> str:
    """The settings that people ask for first."""
    has, settings = group.settings.get, group.settings
    parts = []
    if group.elmo:
        parts += [
            f"ELMo at {'input and output' if has('input.place') == 'both' else has('input.place')}"
        ]
        parts += ["top layer" if has("input.layers") == "top" else f"λ {has('input.l2', 0):g}"]
        parts += [f"ELMo dropout {has('input.elmo_dropout', 0):g}"]
        parts += ["biLM trained too"] if has("input.finetune") else []
    parts += [f"dropout {settings['model.dropout']:g}"] if "model.dropout" in settings else []
    if "model.maxout_norm" in settings:
        parts.append(f"{settings['model.maxout_norm']} norm")
    if "optimizer.learning_rate" in settings:
        parts.append(f"rate {settings['optimizer.learning_rate']:g}")
    for key, unit in BOUNDS.items():
        parts += [f"at most {has(key):g} {unit}"] if has(key) else []
    return ", ".join(parts)


def _setting(key: str, value: Any) -> str:  # noqa: ANN401 - any JSON
    name = "λ" if key == "input.l2" else key.removeprefix("input.").removeprefix("training.")
    if value is None:
        return f"no {name}"
    return f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"


def _by_seed(run: Run) -> tuple[int, str]:
    return run.seed, run.path.as_posix()


def _check(run: Run) -> None:
    lost = [key for key in NEEDED if key not in run.record] if run.task in MEASURES else []
    if lost:
        raise WeightError(
            f"{run.path}: a record of {run.task!r} without {', '.join(lost)}; run again"
        )
