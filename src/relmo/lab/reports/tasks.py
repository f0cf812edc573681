"""Table 1: tasks with and without ELMo, those of the paper and others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

import numpy as np

from relmo.lab.bootstrap import Comparison, compare
from relmo.lab.reports.blocks import (
    NOTHING,
    PAPER,
    Block,
    Caveat,
    Claim,
    Details,
    Figure,
    Missing,
    Paragraph,
    Row,
    Section,
    Span,
    SpanKind,
    Table,
    Text,
    extremes,
    join,
    number,
    percent,
    published,
)
from relmo.lab.reports.groups import (
    ENOUGH_SEEDS,
    Dataset,
    Group,
    Records,
    describe,
    differences,
    error_reduction,
    listed,
)
from relmo.lab.reports.plots import PlotRow, dumbbells
from relmo.lab.reports.records import TASKS
from relmo.tasks.coref.metrics import mean_f1
from relmo.tasks.parts import PARTS

PUBLISHED = PAPER["tasks"]["published"]
HEAD = (
    "task", "model", "seeds", "development", "test", "lowest–highest", "error less by",
    "the paper: test", "the paper: less by", "parameters", "updates", "minutes",
)  # fmt: skip


def table_1(records: Records) -> Section:
    """Scores of each task, the settings behind them, and what the data is."""
    found = records.datasets(lambda group: group.share == 1)
    whole = (run for group in records.groups if group.share == 1 for run in group.runs)
    hardware = sorted({str(run.record.get("hardware", "")) for run in whole})
    blocks: list[Block] = []
    if found:
        rows = [row for dataset in found for row in _rows(records, dataset)]
        blocks = [
            _figure(records, found),
            Table("Table 1. Tasks without and with ELMo.", HEAD, rows, num_words=2),
            *(claim for dataset in found for claim in _claims(records, dataset)),
            _data(records, found),
            *(line for dataset in found for line in _bootstraps(records, dataset)),
            *_settings(records, found),
        ]
    return records.section("tasks", blocks, _missing(records, found), hardware=listed(hardware))


def seeds(group: Group) -> list[Span]:
    """Each seed, linked to its run."""
    return join(
        (Span(str(r.seed), r, f"seed {r.seed}: {r.score('test'):.2f}") for r in group.runs), " "
    )


def _scores(group: Group, kind: SpanKind = "") -> list[Text]:
    """Development score, test score, and the range of the latter if there are several seeds."""
    spread = extremes(group.scores("test"), group.runs) if group.runs[1:] else NOTHING
    return [
        number(group.mean("dev"), group.runs),
        number(group.mean("test"), group.runs, kind=kind),
        spread,
    ]


def _minutes(group: Group) -> Span:
    return number(fmean(run.record["seconds"] for run in group.runs) / 60, group.runs, ".1f")


def _rows(records: Records, dataset: Dataset) -> Iterator[Row]:
    best = records.chosen(dataset)
    others = PUBLISHED.get(dataset.task)
    for group in best:
        less: Text = NOTHING
        theirs: list[Text] = [NOTHING, NOTHING]
        if group.elmo and not best[0].elmo and best[0].mean("test") < 100:
            value = error_reduction(best[0].mean("test"), group.mean("test"))
            less = percent(value, [*group.runs, *best[0].runs], ".1f", "strong")
        if others:
            data = others["data"] if group is best[0] else ""
            theirs[0] = published(others["elmo"] if group.elmo else others["baseline"], data)
            theirs[1] = published(f"{others['reduction']} %") if group.elmo else NOTHING
        steps = [run.record["steps"] for run in group.runs if "steps" in run.record]
        yield [
            records.title(dataset) if group is best[0] else None,
            records.model_name(group.elmo),
            seeds(group),
            *_scores(group, "strong"),
            less,
            *theirs,
            [number(group.runs[0].record["parameters"] / 1e6, group.runs[0], ".1f"), Span(" M")],
            number(fmean(steps), group.runs, ",.0f") if steps else NOTHING,
            _minutes(group),
        ]


def _claims(records: Records, dataset: Dataset) -> Iterator[Claim]:
    baseline, *others = records.chosen(dataset)
    for group in others:
        if not baseline.elmo and group.elmo in records.main_models:
            yield Claim(
                f"{records.title(dataset)}: {group.elmo} above the baseline",
                group.mean("test") > baseline.mean("test"),
                group.against(baseline, "test"),
                dataset.task in PUBLISHED,
            )


def _data(records: Records, found: Sequence[Dataset]) -> Table:
    """What each task is trained on, and the network that is trained."""
    rows: list[Row] = []
    for dataset in found:
        run, task, corpus = (
            records.largest_run(dataset),
            TASKS[dataset.task],
            records.corpus(dataset),
        )
        facts = run.record["data"]
        first, *others = (number(facts[p], run, ",d") if p in facts else NOTHING for p in PARTS)
        remark = corpus.remark if corpus and corpus.remark else NOTHING
        training = [first, Span(f" {task.unit}")]
        rows.append([records.title(dataset), task.network, training, *others, remark])
    head = "task", "network", "training", "development", "test", "what the parts are"
    return Table("Data and networks of the tasks.", head, rows, len(head))


def _bootstraps(records: Records, dataset: Dataset) -> Iterator[Paragraph]:
    """For coreference: could the choice of test documents explain the difference?"""
    baseline, *others = records.chosen(dataset)
    for group in others if dataset.task == "coref" and not baseline.elmo else ():
        found = comparison(baseline, group)
        if found is not None:
            runs = [*group.runs, *baseline.runs]
            is_least = found.p * found.num_draws < 1 + 1e-9
            model = records.model_name(group.elmo).removeprefix("+ ")
            yield Paragraph([
                Span(f"{records.title(dataset)}, {model} against the baseline, paired bootstrap "
                     f"over {found.num_documents} documents, counts averaged over seeds: "),
                number(found.difference, runs, "+.2f"), Span(" ("),
                number(found.low, runs, "+.2f"), Span(" to "), number(found.high, runs, "+.2f"),
                Span(f"); one-sided p {'≤' if is_least else '='} "),
                number(found.p, runs, ".4f"),
                Span(f" of {found.num_draws:,} draws. Because counts are averaged, the difference "
                     "is not exactly that of the mean scores."),
            ])  # fmt: skip


def comparison(baseline: Group, group: Group) -> Comparison | None:
    """A paired bootstrap over documents, their counts averaged over seeds; None without counts."""
    if not all(run.record.get("test_counts") for run in (*baseline.runs, *group.runs)):
        return None
    first, second = (
        np.mean([np.array(run.record["test_counts"], np.float64) for run in which.runs], 0)
        for which in (baseline, group)
    )
    return compare(first, second, mean_f1)


def _settings(records: Records, found: Sequence[Dataset]) -> Iterator[Details]:
    """The chosen settings, and for each data set all that were tried."""
    rows: list[Row] = []
    trials: list[Details] = []
    for dataset in found:
        title = records.title(dataset)
        every = [records.select(dataset, model) for model in ["", *records.models]]
        every = [tried for tried in every if tried]
        for tried in every:
            name, model = title if tried is every[0] else None, records.model_name(tried[0].elmo)
            rows.append([name, model, str(len(tried)), describe(tried[0])])
        if any(tried[1:] for tried in every):
            count = sum(len(tried) for tried in every)
            trials.append(Details(
                f"{title}: all {count} settings that were tried", [_trials(records, title, every)]
            ))  # fmt: skip
    head = "task", "model", "chosen from", "settings"
    yield Details(
        "Settings that the development part chose",
        [Table("Settings of the rows of Table 1, and how many were tried.", head, rows, 4)],
    )
    yield from trials


def _trials(records: Records, title: str, every: Sequence[Sequence[Group]]) -> Table:
    rows: list[Row] = []
    for tried in every:
        name: str | None = records.model_name(tried[0].elmo)
        for group, apart in zip(tried, differences(tried), strict=True):
            is_chosen = group is tried[0] and len(tried) > 1
            which = [Span(apart or "one setting")]
            which += [Span(" (chosen)", kind="strong")] if is_chosen else []
            rows.append([name, which, seeds(group), *_scores(group), _minutes(group)])
            name = None
    head = (
        "model", "settings, and what others change", "seeds", "development", "test",
        "lowest–highest", "minutes",
    )  # fmt: skip
    caption = f"{title}: settings, those with {ENOUGH_SEEDS} seeds first, by development score."
    return Table(caption, head, rows, 2)


def _figure(records: Records, found: Sequence[Dataset]) -> Figure:
    """Scores and reductions of the error, the paper's below ours, for the main models only."""
    shown = records.main_models
    scores, errors = [], []
    for dataset in found:
        title, others = records.title(dataset), PUBLISHED.get(dataset.task)
        best = [group for group in records.chosen(dataset) if group.elmo in ("", *shown)]
        values = [(records.mark(group.elmo), group.mean("test")) for group in best]
        theirs = (float(others["baseline"]), float(others["elmo"])) if others else ()
        scores.append(PlotRow(title, values, theirs))
        before = 100.0 if not best or best[0].elmo else best[0].mean("test")
        less = [(own, error_reduction(before, v)) for own, v in values[1:] if before < 100]
        if less:
            errors.append(PlotRow(title, less, (float(others["reduction"]),) if others else ()))
    models = [(records.mark(name), name.removeprefix("relmo-en-")) for name in shown]
    pictures = {}
    for name, heading, rows, marks in (
        ("tasks-scores", "Test scores, %", scores, [("s0", "baseline"), *models]),
        ("tasks-errors", "Error taken away by ELMo, %", errors, models),
    ):
        if rows:
            pictures[name] = dumbbells(name, heading, rows, marks, ("paper", "the paper"))
    return Figure(
        pictures,
        "Test scores without and with ELMo, and the percentage of the error that ELMo removes; "
        "rings below each row are the paper's, on its own data. Scales do not start at zero.",
    )


def _missing(records: Records, found: Sequence[Dataset]) -> Iterator[Missing | Caveat]:
    absent = [task for task in PUBLISHED if task not in {dataset.task for dataset in found}]
    if absent:
        yield Missing(f"No run of {listed(absent)}.")
    for model in ("", *records.study.models):
        lacking = [records.title(d) for d in found if not records.select(d, model)]
        if lacking:
            yield Missing(f"No run of {model or 'the baseline'} on {'; '.join(lacking)}.")
    single = [
        f"{records.corpus_name(dataset)} ({records.model_name(group.elmo)})"
        for dataset in found
        for group in records.chosen(dataset)
        if len(group.runs) == 1
    ]
    if single:
        yield Caveat(f"One seed only, so no range: {'; '.join(single)}.")
    for dataset in found:
        tried = {m: len(records.select(dataset, m)) for m in ("", *records.models)}
        for model, count in tried.items():
            if tried[""] and count > tried[""]:
                yield Caveat(
                    f"{records.title(dataset)}: {count} settings of {model} were tried but "
                    f"{tried['']} of the baseline, which favors {model}."
                )
