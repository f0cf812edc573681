"""Table 1: tasks with and without ELMo, those of the paper and others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

import numpy as np

from relmo.lab.bootstrap import compare
from relmo.lab.reports import page
from relmo.lab.reports.groups import Dataset, Group, Records, differences
from relmo.lab.reports.plots import PlotRow, dumbbells
from relmo.lab.reports.records import TASKS, TEXTS
from relmo.tasks.coref.metrics import mean_f1

PUBLISHED = TEXTS["tasks"]["published"]


def table_1(records: Records) -> page.Section:
    """Scores of each task, the settings behind them, and what the data is."""
    found = records.datasets(lambda group: group.share == 1)
    whole = (run for group in records.groups if group.share == 1 for run in group.runs)
    hardware = page.listed(sorted({str(run.record.get("hardware", "")) for run in whole}))
    blocks: list[page.Block] = []
    if found:
        rows = [row for dataset in found for row in _rows(records, dataset)]
        blocks = [
            _figure(records, found),
            page.table("scores", rows),
            *(claim for dataset in found for claim in _claims(records, dataset)),
            _data(records, found),
            *(line for dataset in found for line in _bootstraps(records, dataset)),
            *_settings(records, found),
        ]
    return records.section("tasks", blocks, _missing(records, found), hardware=hardware)


def error_reduction(before: float, after: float) -> float:
    """Relative reduction of the error in percent, from scores in percent."""
    return 100 * (after - before) / (100 - before)


def _scores(group: Group, kind: page.SpanKind = "") -> list[page.Text]:
    """Seeds, development score, test score, and the latter's range if there are several seeds."""
    return [
        group.seeds(),
        page.number(group.mean("dev"), group.runs),
        page.number(group.mean("test"), group.runs, kind=kind),
        page.extremes(group.scores("test"), group.runs) if group.runs[1:] else page.NOTHING,
    ]


def _minutes(group: Group) -> page.Span:
    return page.number(fmean(run.record["seconds"] for run in group.runs) / 60, group.runs, ".1f")


def _rows(records: Records, dataset: Dataset) -> Iterator[page.Row]:
    best, others = records.chosen(dataset), PUBLISHED.get(dataset.task)
    for group in best:
        less: page.Text = page.NOTHING
        theirs, reduction = [page.NOTHING], [page.NOTHING]
        if group.elmo and not best[0].elmo and best[0].mean("test") < 100:
            value = error_reduction(best[0].mean("test"), group.mean("test"))
            runs = [*group.runs, *best[0].runs]
            less = page.text(page.number(value, runs, ".1f", "strong"), " %")
        if others:
            figure, data = others["elmo" if group.elmo else "baseline"], others["data"]
            theirs = page.published(figure, data if group is best[0] else "")
            reduction = page.published(f"{others['reduction']} %") if group.elmo else reduction
        steps = [run.record["steps"] for run in group.runs if "steps" in run.record]
        size = page.number(group.runs[0].record["parameters"] / 1e6, group.runs[0], ".1f")
        yield [
            records.title(dataset) if group is best[0] else None,
            records.model_name(group.elmo),
            *_scores(group, "strong"),
            less,
            theirs,
            reduction,
            page.text(size, " M"),
            page.number(fmean(steps), group.runs, ",.0f") if steps else page.NOTHING,
            _minutes(group),
        ]


def _claims(records: Records, dataset: Dataset) -> Iterator[page.Claim]:
    baseline, *others = records.chosen(dataset)
    for group in others:
        if not baseline.elmo and group.elmo in records.main_models:
            yield page.Claim(
                f"{records.title(dataset)}: {group.elmo} above the baseline",
                group.mean("test") > baseline.mean("test"),
                group.against(baseline, "test"),
                dataset.task in PUBLISHED,
            )


def _data(records: Records, found: Sequence[Dataset]) -> page.Table:
    """What each task is trained on, and the network that is trained."""
    rows: list[page.Row] = []
    for dataset in found:
        run, task = records.largest_run(dataset), TASKS[dataset.task]
        sizes = (run.record["data"].get(part) for part in ("train", "dev", "test"))
        first, *others = (page.NOTHING if n is None else page.number(n, run, ",d") for n in sizes)
        remark = records.corpus(dataset).remark or page.NOTHING
        training = page.text(first, f" {task['unit']}")
        rows.append([records.title(dataset), task["network"], training, *others, remark])
    return page.table("data", rows)


def _bootstraps(records: Records, dataset: Dataset) -> Iterator[page.Paragraph]:
    """For coreference: could the choice of test documents explain the difference?"""
    baseline, *others = records.chosen(dataset)
    for group in others if dataset.task == "coref" and not baseline.elmo else ():
        runs, model = [*group.runs, *baseline.runs], records.model_name(group.elmo)
        if not all(run.record.get("test_counts") for run in runs):
            continue
        first, second = (
            np.mean([np.array(run.record["test_counts"], np.float64) for run in which.runs], 0)
            for which in (baseline, group)
        )
        found = compare(first, second, mean_f1)
        sign = "≤" if found.p * found.num_draws < 1 + 1e-9 else "="
        change, low, high = (
            page.number(value, runs, "+.2f") for value in (found.difference, found.low, found.high)
        )
        yield page.Paragraph(page.text(
            f"{records.title(dataset)}, {model.removeprefix('+ ')} against the baseline, paired "
            f"bootstrap over {found.num_documents} documents, counts averaged over seeds: ",
            change, " (", low, " to ", high, f"); one-sided p {sign} ",
            page.number(found.p, runs, ".4f"), f" of {found.num_draws:,} draws. Because counts are "
            "averaged, the difference is not exactly that of the mean scores.",
        ))  # fmt: skip


def _settings(records: Records, found: Sequence[Dataset]) -> Iterator[page.Details]:
    """The chosen settings, and for each data set all that were tried."""
    rows: list[page.Row] = []
    trials: list[page.Details] = []
    for dataset in found:
        title = records.title(dataset)
        every = [records.select(dataset, model) for model in ["", *records.models]]
        every = [tried for tried in every if tried]
        for tried in every:
            name, model = title if tried is every[0] else None, records.model_name(tried[0].elmo)
            rows.append([name, model, str(len(tried)), tried[0].describe()])
        if any(tried[1:] for tried in every):
            summary = f"{title}: all {sum(map(len, every))} settings that were tried"
            trials.append(page.Details(summary, [_trials(records, title, every)]))
    yield page.Details("Settings that the development part chose", [page.table("chosen", rows)])
    yield from trials


def _trials(records: Records, title: str, every: Sequence[Sequence[Group]]) -> page.Table:
    rows: list[page.Row] = []
    for tried in every:
        name: str | None = records.model_name(tried[0].elmo)
        for group, apart in zip(tried, differences(tried), strict=True):
            mark = page.Span(" (chosen)" if name and tried[1:] else "", kind="strong")
            which = page.text(apart or "one setting", mark)
            rows.append([name, which, *_scores(group), _minutes(group)])
            name = None
    return page.table("trials", rows, title=title)


def _figure(records: Records, found: Sequence[Dataset]) -> page.Figure:
    """Scores and reductions of the error, the paper's below ours, for the main models only.

    Of weights that were replaced under the same name, those that have run are shown, else the
    earlier ones.
    """
    ran = [name for name in records.study.current if name in records.models]
    replaced = [m for m in records.study.earlier if m.startswith(tuple(f"{n} " for n in ran))]
    shown = [name for name in records.main_models if name not in replaced]
    scores, errors = [], []
    for dataset in found:
        title, others = records.title(dataset), PUBLISHED.get(dataset.task)
        best = [group for group in records.chosen(dataset) if group.elmo in ("", *shown)]
        if not best:
            continue
        values = [(records.mark(group.elmo), group.mean("test")) for group in best]
        theirs = (float(others["baseline"]), float(others["elmo"])) if others else ()
        scores.append(PlotRow(title, values, theirs))
        before = 100.0 if best[0].elmo else best[0].mean("test")
        less = [(own, error_reduction(before, v)) for own, v in values[1:] if before < 100]
        if less:
            errors.append(PlotRow(title, less, (float(others["reduction"]),) if others else ()))
    models = [(records.mark(name), name.removeprefix("relmo-en-")) for name in shown]
    drawn = {"tasks-scores": ("Test scores, %", scores, [("s0", "baseline"), *models])}
    if errors:
        drawn["tasks-errors"] = ("Error taken away by ELMo, %", errors, models)
    pictures = {name: dumbbells(name, *facts) for name, facts in drawn.items()}
    return page.Figure(
        pictures,
        "Test scores without and with ELMo, and the percentage of the error that ELMo removes; "
        "rings below each row are the paper's, on its own data. Scales do not start at zero.",
    )


def _missing(records: Records, found: Sequence[Dataset]) -> Iterator[page.Missing | page.Caveat]:
    absent = [task for task in PUBLISHED if task not in {dataset.task for dataset in found}]
    if absent:
        yield page.Missing(f"No run of {page.listed(absent)}.")
    for model in ("", *records.study.current):
        lacking = [records.title(d) for d in found if not records.select(d, model)]
        if lacking:
            yield page.Missing(f"No run of {model or 'the baseline'} on {'; '.join(lacking)}.")
    single = [
        f"{records.corpus_name(dataset)} ({records.model_name(group.elmo)})"
        for dataset in found
        for group in records.chosen(dataset)
        if len(group.runs) == 1
    ]
    if single:
        yield page.Caveat(f"One seed only, so no range: {'; '.join(single)}.")
    for dataset in found:
        tried = {m: len(records.select(dataset, m)) for m in ("", *records.models)}
        for model, count in tried.items():
            if tried[""] and count > tried[""]:
                yield page.Caveat(
                    f"{records.title(dataset)}: {count} settings of {model} were tried but "
                    f"{tried['']} of the baseline, which favors {model}."
                )
