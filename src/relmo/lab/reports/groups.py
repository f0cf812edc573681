"""Runs that belong together: which of them count, what sets them apart, what they are called.

Runs with the same data set, model, share of the training data and recipe, but different seeds, form
a group. Among several groups those with more seeds come first (three are enough), then those with
the higher mean score on the development part: that group is the one that is "chosen".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from relmo.lab.reports import page
from relmo.lab.reports.records import TASKS, TEXTS, Corpus, RunFile, ScoredPart, Study, read_runs

ENOUGH_SEEDS = 3
"""Settings tried with fewer seeds than this never replace ones that have as many."""
PLACES: Mapping[str, str] = TEXTS["places"]["variants"]


class Dataset(NamedTuple):
    """A task on certain files."""

    rank: int
    """Position of the task in the paper's order."""
    task: str
    name: str
    digest: str
    """From the checksums of its files."""

    @classmethod
    def of(cls, run: RunFile) -> Dataset:
        """The data set that a run used."""
        data = run.record["data"]
        digest = "".join(file["sha256"][:8] for _, file in sorted(data.get("files", {}).items()))
        return cls([*TASKS].index(run.task), run.task, str(data["name"]), digest)


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ only in their seeds, by seed."""

    dataset: Dataset
    elmo: str
    share: float
    runs: tuple[RunFile, ...]

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that all its runs share."""
        return self.runs[0].settings

    def scores(self, part: ScoredPart) -> list[float]:
        """The score of each run."""
        return [run.score(part) for run in self.runs]

    def mean(self, part: ScoredPart) -> float:
        """Mean score over the seeds."""
        return fmean(self.scores(part))

    def limits(self, form: str) -> list[str]:
        """What limits the training, apart from early stopping: `["3,000 updates"]`."""
        limits = ((self.settings.get(key), unit) for key, unit in TEXTS["limits"].items())
        return [f"{count:{form}} {unit}" for count, unit in limits if count]

    def describe(self) -> str:
        """The settings that readers ask about first."""
        has, parts = self.settings.get, []
        if self.elmo:
            parts += [f"ELMo at {PLACES.get(has('input.place', ''), has('input.place'))}"]
            parts += ["top layer" if has("input.layers") == "top" else f"λ {has('input.l2', 0):g}"]
            parts += [f"ELMo dropout {has('input.elmo_dropout', 0):g}"]
            parts += ["biLM trained too"] if has("input.finetune") else []
        for key, form in TEXTS["described"].items():
            parts += [form.format(has(key))] if has(key) is not None else []
        return ", ".join([*parts, *(f"at most {limit}" for limit in self.limits("g"))])

    def seeds(self) -> page.Text:
        """Each seed, linked to its run."""
        tips = [(run, f"seed {run.seed}: {run.score('test'):.2f}") for run in self.runs]
        return page.join((page.Span(str(run.seed), run, tip) for run, tip in tips), " ")

    def cell(self, part: ScoredPart) -> page.Text:
        """Mean over seeds for a table, with lowest and highest if there are several."""
        return page.mean_and_range(self.scores(part), self.runs)

    def against(self, other: Group, part: ScoredPart) -> page.Text:
        """`91.64 against 90.03`, and whether other seeds could reverse the order."""
        above, below = (page.number(group.mean(part), group.runs) for group in (self, other))
        lower, higher = sorted((self.scores(part), other.scores(part)), key=fmean)
        remark = " (seeds overlap)" if max(lower) >= min(higher) else ""
        if 1 in (len(lower), len(higher)):
            remark = " (one seed)"
        return page.text(above, " against ", below, page.weak(remark))


@dataclass(frozen=True, eq=False)
class Records:
    """All that a report is made from: the runs, and the study they belong to."""

    runs: Sequence[RunFile]
    study: Study

    @classmethod
    def read(cls, folder: Path) -> Records:
        """Everything below a folder."""
        runs = read_runs(folder)
        return cls(runs, runs[0].study)

    def of(self, task: str) -> list[RunFile]:
        """Runs of a probe or another study, by model."""
        found = (run for run in self.runs if run.task == task)
        return sorted(found, key=lambda run: (*self.model_order(run.elmo), run.order))

    @cached_property
    def groups(self) -> list[Group]:
        """Groups of the tasks' runs, by data set and model.

        Of copies, runs of a group with the same seed, the first by path counts.
        """
        found: dict[str, dict[int, RunFile]] = {}
        for run in self.runs:
            if run.is_task:
                vectors = (run.record.get("vectors") or {}).get("sha256", "")
                model = run.elmo, run.fingerprint, vectors
                parts = Dataset.of(run), *model, run.share, run.settings
                found.setdefault(json.dumps(parts, sort_keys=True), {}).setdefault(run.seed, run)
        each = [tuple(own[seed] for seed in sorted(own)) for _, own in sorted(found.items())]
        groups = [Group(Dataset.of(own[0]), own[0].elmo, own[0].share, own) for own in each]
        return sorted(groups, key=lambda g: (g.dataset, self.model_order(g.elmo)))

    def datasets(self, keep: Callable[[Group], bool] = lambda _: True) -> list[Dataset]:
        """Data sets of the groups to keep, in the paper's order of tasks."""
        return sorted({group.dataset for group in self.groups if keep(group)})

    def select(
        self,
        dataset: Dataset,
        elmo: str,
        share: float = 1.0,
        keep: Callable[[Group], bool] = lambda _: True,
    ) -> list[Group]:
        """Groups of a data set and model; the chosen one comes first."""
        wanted = dataset, elmo, share
        own = [g for g in self.groups if (g.dataset, g.elmo, g.share) == wanted and keep(g)]
        return sorted(own, key=lambda g: (-min(len(g.runs), ENOUGH_SEEDS), -g.mean("dev")))

    def chosen(self, dataset: Dataset) -> list[Group]:
        """The chosen group of the baseline and of each model, all training data used."""
        every = (self.select(dataset, model) for model in ["", *self.models])
        return [own[0] for own in every if own]

    @cached_property
    def known(self) -> list[str]:
        """Models under study; those of the records if report.toml does not name them."""
        return [*self.study.models] or sorted({run.elmo for run in self.runs if run.elmo})

    @cached_property
    def models(self) -> list[str]:
        """ELMo models of the tasks' runs: those under study, then others."""
        return sorted({g.elmo for g in self.groups if g.elmo}, key=self.model_order)

    @property
    def main_models(self) -> list[str]:
        """Models that figures show: those under study, or all if it has none of them."""
        return [name for name in self.models if name in self.known] or self.models

    def model_order(self, name: str) -> tuple[int, str]:
        """Sort key: the baseline, the models under study, others by name."""
        order = ["", *self.known]
        return order.index(name) if name in order else len(order), name

    def mark(self, model: str) -> str:
        """CSS class of a model in figures."""
        return f"s{min(self.model_order(model)[0], 4)}"

    def model_name(self, model: str) -> str:
        """How a row is labelled. A tuned model is named after one under study and the task."""
        for known in self.study.models:
            if model.startswith(f"{known}-"):
                return f"+ {known}, tuned"
        return f"+ {model}" if model else "baseline"

    def title(self, dataset: Dataset) -> str:
        """`Named entities, CoNLL-2003`."""
        return f"{TASKS[dataset.task]['title']}, {self.corpus_name(dataset)}"

    def largest_run(self, dataset: Dataset) -> RunFile:
        """The run that used most of a data set, preferably all: what it says about the data."""
        own = [r for group in self.groups if group.dataset == dataset for r in group.runs]
        return max(own, key=lambda run: (int(run.record["data"]["train"]), run.share))

    def corpus_name(self, dataset: Dataset) -> str:
        """Name of the data, with its size or kind if that is needed to tell it from others."""
        corpus, unit = self.corpus(dataset), TASKS[dataset.task]["unit"]
        if corpus.has_size:
            unit = f"{self.largest_run(dataset).record['data']['train']:,} {unit}"
        has_unit = corpus.has_size or dataset.task.startswith("sst")
        return f"{corpus.name}, {unit}" if has_unit else corpus.name

    def corpus(self, dataset: Dataset) -> Corpus:
        """What report.toml says about the data; by default it is named after its folder."""
        file = self.largest_run(dataset).record["data"].get("files", {}).get("train", {})
        for corpus in self.study.corpora:
            is_file = (corpus.task, corpus.file) == (dataset.task, file.get("name"))
            if is_file and file.get("sha256", "").startswith(corpus.sha256):
                return corpus
        return Corpus(task=dataset.task, file="", name=dataset.name)

    def section(
        self, name: str, blocks: Sequence[page.Block], missing: Iterable[page.Block], **facts: str
    ) -> page.Section:
        """A section with its texts; an introduction, which may contain facts, precedes its blocks.

        It is left out if there is nothing to introduce. `missing` are blocks of what is not shown.
        """
        texts = TEXTS[name]
        shown = [self.introduction(name, **facts), *blocks] if blocks else []
        return page.Section(name, texts["title"], texts["finding"], [*shown, *missing])

    def introduction(self, name: str, **facts: str) -> page.Paragraph:
        """The introduction of a section or `report`, followed by the study's own note."""
        about = TEXTS[name]["about"].format(**facts)
        return page.Paragraph(" ".join(filter(None, [about, self.study.notes.get(name)])))

    def absent(self, what: str, have: Collection[str]) -> list[page.Missing]:
        """Models under study for which there is no record of something."""
        if not self.study.models and not have:
            return [page.Missing(f"No record of {what}.")]
        lost = [model for model in self.study.current if model not in have]
        return [page.Missing(f"No record of {what} for {model}.") for model in lost]


def differences(groups: Sequence[Group]) -> list[str]:
    """What sets the first of some groups apart, `place both, l2 0.1`, and what others change."""
    keys = sorted({key for group in groups for key in group.settings})
    apart = [key for key in keys if len({json.dumps(g.settings.get(key)) for g in groups}) > 1]
    return [
        ", ".join(
            _setting(key, group.settings.get(key))
            for key in apart
            if group is groups[0] or group.settings.get(key) != groups[0].settings.get(key)
        )
        for group in groups
    ]


def _setting(key: str, value: Any) -> str:  # noqa: ANN401 - any JSON
    name = "λ" if key == "input.l2" else key.removeprefix("input.").removeprefix("training.")
    if value is None:
        return f"no {name}"
    return f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
