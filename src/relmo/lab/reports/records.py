"""Records on disk: one run.json per run folder, or many of them in a collection (JSON lines).

    read_runs(Path("experiments"))    -> list[RunFile]

A line of a collection is `{"run": NAME, "record": {...}}`. NAME is the name of the run's folder,
the record is its run.json unchanged, so that its checksum (the key `seal`) can still be verified.
`report.toml` in the folder of runs describes the study that they belong to; it is optional.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeAlias

from relmo.config import Settings, build
from relmo.errors import ConfigError, WeightError
from relmo.training.run import check_record, read_record

ScoredPart = Literal["dev", "test"]
START = '{"run":'
"""First characters of a collection, which tell it from other JSON lines such as metrics.jsonl."""
NEEDED = "data", "recipe", "seed", "parameters", "seconds", "results"
"""Keys that the record of a task's run must have."""
ELMO_ONLY = "place", "layers", "l2", "elmo_dropout", "finetune"
"""Settings of a recipe's input that have no effect on a baseline."""
NO_SETTING = (
    "training.seed", "training.log_every", "training.checkpoint_every",
    "training.checkpoint_minutes", "batch.share",
)  # fmt: skip
"""Keys of a recipe that do not change the model, or that the record repeats elsewhere."""
Texts: TypeAlias = Mapping[str, Any]
TEXTS: Texts = tomllib.loads(files("relmo.lab.reports").joinpath("texts.toml").read_text("utf-8"))
"""Names of tasks and methods; by section its texts and what others published."""
TASKS: Mapping[str, Mapping[str, str]] = TEXTS["known_tasks"]
"""By task, in the paper's order: its title, the score that decides, the network, one example."""


@dataclass(frozen=True, kw_only=True)
class Corpus(Settings):
    """A data set that has a name of its own, recognized by its training file."""

    task: str
    file: str
    """Name of the training file."""
    sha256: str = ""
    """How the file's checksum starts; needed if other data sets use the same file name."""
    name: str
    has_size: bool = False
    """Whether the number of training examples follows the name, to tell subsets apart."""
    remark: str = ""
    """What readers should know about its parts."""


@dataclass(frozen=True, kw_only=True)
class Study(Settings):
    """report.toml: what a report says about runs that is not in their records."""

    models: tuple[str, ...] = ()
    """ELMo models under study, in the report's order; by default all that the records name."""
    earlier: tuple[str, ...] = ()
    """Those of them that were replaced: shown where there are records, not missed elsewhere."""
    names: Mapping[str, str] = field(default_factory=dict)
    """By how a fingerprint starts: the name that a model has in the report instead of its own, such
    as earlier weights that were replaced under the same name."""
    corpora: tuple[Corpus, ...] = ()
    """Data sets with names of their own; others are named after their folder."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Names of the texts of Table 7."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Sentences added to introductions, by section; `report` is the introduction of it all."""
    added: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By task (`all` for every task): settings that older recipes lack, with the value that those
    runs used."""
    compared_tasks: tuple[str, ...] = ()
    """Tasks that Tables 2 and 3 should contain; the report lists what is missing."""
    share_tasks: tuple[str, ...] = ()
    """Tasks that Figure 1 should contain, each with all `shares`."""
    shares: tuple[float, ...] = ()
    targets: Mapping[str, float] = field(default_factory=dict)
    """Goals of the study: `pos` accuracy of the best layer, `wsd` points above the first sense."""

    @property
    def current(self) -> list[str]:
        """Models that should be in every part of the report."""
        return [model for model in self.models if model not in self.earlier]


def read_study(folder: Path) -> Study:
    """Read report.toml; without that file, the study that says nothing."""
    path = folder / "report.toml"
    if not path.is_file():
        return Study()
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML ({error})") from error
    corpora = [build(Corpus, each, f"{path}, corpora") for each in values.pop("corpora", [])]
    return build(Study, {**values, "corpora": corpora}, str(path))


@dataclass(frozen=True, eq=False)
class RunFile:
    """A record, and the file that contains it."""

    path: Path
    record: Mapping[str, Any]
    name: str
    """Name of the run's folder."""
    line: int = 0
    """Number of its line in a collection, from 1 on; 0 if the file is a run.json."""
    study: Study = field(default_factory=Study)

    @property
    def order(self) -> str:
        """Sort key: the path of its run.json; a collection counts as a folder of runs."""
        path = self.path.with_suffix("") / self.name / "run.json" if self.line else self.path
        return path.as_posix()

    @property
    def task(self) -> str:
        """What was run; empty if the record does not say."""
        return str(self.record.get("task", ""))

    @property
    def is_task(self) -> bool:
        """Whether it is a task's run with a score on the test part."""
        return self.task in TASKS and f"test_{TASKS[self.task]['measure']}" in self.results

    @property
    def elmo(self) -> str:
        """Name of the ELMo model; empty for a baseline."""
        for start, name in self.study.names.items():
            if self.fingerprint.startswith(start):
                return name
        return str((self.record.get("elmo") or {}).get("name", ""))

    @property
    def fingerprint(self) -> str:
        """Of the ELMo model's weights."""
        return str((self.record.get("elmo") or {}).get("fingerprint", ""))

    @property
    def seed(self) -> int:
        """Random seed of a task's run."""
        return int(self.record["seed"])

    @property
    def share(self) -> float:
        """Share of the training data that was used, 0 to 1."""
        return float(self.record["data"].get("share", 1.0))

    @property
    def results(self) -> Mapping[str, Any]:
        """Scores by name."""
        found: Mapping[str, Any] = self.record.get("results", {})
        return found

    def score(self, part: ScoredPart) -> float:
        """The score that decides, for a task's run."""
        return float(self.results[f"{part}_{TASKS[self.task]['measure']}"])

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The recipe without settings that have no effect, flat: `{"input.place": "both", …}`."""
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
            idle.append("input.l2")  # a single layer has no weights to regularize
        added = self.study.added
        every = {**added.get("all", {}), **added.get(self.task, {}), **flat}
        return {key: value for key, value in every.items() if key not in idle}


def read_runs(folder: Path) -> list[RunFile]:
    """All runs below a folder, by path; of copies, such as a folder's in a collection, the first.

    Raises:
        ConfigError: the folder contains no records.
        WeightError: some records are damaged or were edited; the message names all of them.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder; give a folder of runs")
    study, runs, broken = read_study(folder), [], []
    for source in _sources(folder):
        try:
            runs.append(_load(*source, study))
        except WeightError as error:
            broken.append(str(error))
    if broken:
        raise WeightError("; ".join(broken))
    if not runs:
        raise ConfigError(
            f"{folder} contains no run.json and no collection of records; give a folder of runs"
        )
    ordered = sorted(runs, key=lambda run: run.order)
    first = {run.record["seal"]: run for run in reversed(ordered)}
    return [run for run in ordered if first[run.record["seal"]] is run]


def _sources(folder: Path) -> Iterator[tuple[Path, int, str]]:
    """File of each record below a folder and, in a collection, number and text of its line."""
    yield from ((path, 0, "") for path in sorted(folder.rglob("run.json")))
    for path in sorted(folder.rglob("*.jsonl")):
        with path.open(encoding="utf-8", errors="replace") as file:
            if file.read(len(START)) == START:
                file.seek(0)
                yield from ((path, n, line) for n, line in enumerate(file, 1) if line.strip())


def _load(path: Path, number: int, line: str, study: Study) -> RunFile:
    """The run of a source; WeightError if its record is not intact and complete."""
    where = f"{path}, line {number}" if number else str(path)
    if number:
        try:
            entry = json.loads(line)
            name, record = str(entry["run"]), dict(entry["record"])
        except (ValueError, KeyError, TypeError) as error:
            raise WeightError(f"{where}: not a run and its record ({error!r})") from error
        check_record(record, where)
    else:
        name, record = path.parent.name, read_record(path)
    run = RunFile(path, record, name, number, study)
    lost = [key for key in NEEDED if key not in record] if run.task in TASKS else []
    if lost:
        raise WeightError(f"{where}: a record of {run.task!r} without {', '.join(lost)}; run again")
    return run
