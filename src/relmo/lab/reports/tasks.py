"""Table 1: tasks with and without ELMo, the paper's and others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

import numpy as np

from relmo.lab.bootstrap import Comparison, compare
from relmo.lab.reports import paper
from relmo.lab.reports.blocks import (
    NOTHING,
    Block,
    Caveat,
    Claim,
    Details,
    Figure,
    Missing,
    Paragraph,
    Section,
    Span,
    Table,
    Text,
    extremes,
    join,
    number,
    published,
)
from relmo.lab.reports.names import (
    NETWORKS,
    REMARKS,
    UNITS,
    against,
    corpus,
    largest_run,
    listed,
    mark,
    model_name,
    title,
)
from relmo.lab.reports.plots import Dumbbell, dumbbells
from relmo.lab.reports.records import (
    ENOUGH_SEEDS,
    MODELS,
    Dataset,
    Group,
    datasets,
    describe,
    differences,
    error_reduction,
    main_models,
    models,
    select,
)
from relmo.tasks.coref.metrics import mean_f1
from relmo.tasks.data_files import PARTS

HEAD = (
    "task", "model", "seeds", "development", "test", "lowest–highest", "error less by",
    "the paper: test", "the paper: less by", "parameters", "updates", "minutes",
)  # fmt: skip


def table_1(groups: Sequence[Group]) -> Section:
    """The section."""
    whole = [group for group in groups if group.share == 1]
    found = datasets(whole)
    blocks: list[Block] = []
    if found:
        blocks += [
            Paragraph(
                "Rows are means over seeds, scored on the test part with the weights and the "
                "settings that were chosen on the development part. Scores are F1 or, for "
                "entailment, sentiment and parts of speech, accuracy, in percent. Data and static "
                "vectors are open ones and often smaller than the paper's, so what compares with "
                "the paper is the error that ELMo takes away, not the score. Parameters are those "
                "that were trained; updates and minutes those of training, with early stopping, "
                f"on {listed(_hardware(whole))}, other runs beside it. A model called tuned has "
                "read the task's training text for one epoch before (Table 7)."
            ),
            _pictures(whole, found),
            Table(
                "Table 1. Tasks without and with ELMo.",
                HEAD,
                [row for dataset in found for row in _rows(whole, dataset)],
                num_words=2,
            ),
            *(claim for dataset in found for claim in _claims(whole, dataset)),
            _data(whole, found),
            *(line for dataset in found for line in _bootstraps(whole, dataset)),
            *_settings(whole, found),
        ]
    return Section(
        "tasks",
        "Table 1: tasks with and without ELMo",
        "Adding ELMo makes every task better, with 6 to 25 % less error in its Table 1.",
        [*blocks, *_missing(whole, found)],
    )


def chosen(groups: Sequence[Group], dataset: Dataset) -> list[Group]:
    """The baseline and each model, with the settings that the development part chooses."""
    every = (select(groups, dataset, model) for model in ["", *models(groups)])
    return [group[0] for group in every if group]


def seeds(group: Group) -> list[Span]:
    """Each linked to its run."""
    return join([Span(str(run.seed), run, f"seed {run.seed}: {run.score('test'):.2f}")
                 for run in group.runs], " ")  # fmt: skip


def spread(group: Group) -> Text:
    """Lowest and highest test score, each linked to its run; of one run there is no such thing."""
    if len(group.runs) == 1:
        return NOTHING
    return extremes(group.scores("test"), group.runs)


def _rows(groups: Sequence[Group], dataset: Dataset) -> Iterator[list[Text | None]]:
    best = chosen(groups, dataset)
    baseline = best[0] if not best[0].elmo else None
    others = paper.TABLE_1.get(dataset.task)
    for group in best:
        less: Text = NOTHING
        if group.elmo and baseline and baseline.mean("test") < 100:
            value = error_reduction(baseline.mean("test"), group.mean("test"))
            less = number(value, [*group.runs, *baseline.runs], ".1f", "strong")
            less = [less, Span(" %")]
        theirs, reduction = [NOTHING], NOTHING
        if others:
            theirs = [published(others.elmo if group.elmo else others.baseline)]
            if group is best[0]:
                theirs.append(Span(f" {others.data}", kind="weak"))
            if group.elmo:
                reduction = published(f"{others.reduction} %")
        yield [
            title(dataset, groups) if group is best[0] else None,
            model_name(group.elmo),
            seeds(group),
            number(group.mean("dev"), group.runs),
            number(group.mean("test"), group.runs, kind="strong"),
            spread(group),
            less,
            theirs,
            reduction,
            [number(group.runs[0].record["parameters"] / 1e6, group.runs[0], ".1f"), Span(" M")],
            _updates(group),
            number(fmean(run.record["seconds"] for run in group.runs) / 60, group.runs, ".1f"),
        ]


def _updates(group: Group) -> Text:
    """Mean number of updates that were made."""
    steps = [run.record["steps"] for run in group.runs if "steps" in run.record]
    return number(fmean(steps), group.runs, ",.0f") if steps else NOTHING


def _data(groups: Sequence[Group], found: Sequence[Dataset]) -> Table:
    """What the tasks learn from, and by which networks."""
    rows: list[list[Text | None]] = []
    for dataset in found:
        run = largest_run(dataset, groups)
        facts = run.record["data"]
        file = facts.get("files", {}).get("train", {}).get("name", "")
        sizes = (number(facts[part], run, ",d") if part in facts else NOTHING for part in PARTS)
        first, *others = sizes
        rows.append([
            title(dataset, groups), NETWORKS[dataset.task],
            [first, Span(f" {UNITS[dataset.task]}")], *others, REMARKS.get(file, NOTHING),
        ])  # fmt: skip
    head = "task", "network", "training", "development", "test", "what the parts are"
    return Table("Data and networks of the tasks.", head, rows, len(head))


def _claims(groups: Sequence[Group], dataset: Dataset) -> Iterator[Claim]:
    best = chosen(groups, dataset)
    shown = main_models(groups)
    for group in best[1:] if not best[0].elmo else ():
        if group.elmo in shown:
            yield Claim(
                f"{title(dataset, groups)}: {_plain(group)} above the baseline",
                group.mean("test") > best[0].mean("test"),
                against(group, best[0], "test"),
                dataset.task in paper.TABLE_1,
            )


def _bootstraps(groups: Sequence[Group], dataset: Dataset) -> Iterator[Paragraph]:
    """Coreference: was it the choice of documents?"""
    best = chosen(groups, dataset)
    if dataset.task != "coref" or best[0].elmo:
        return
    for group in best[1:]:
        found = comparison(best[0], group)
        if found is not None:
            runs = [*group.runs, *best[0].runs]
            is_least = found.p * found.num_draws < 1 + 1e-9
            yield Paragraph([
                Span(f"{title(dataset, groups)}, {_plain(group)} against the baseline, paired "
                     f"bootstrap over {found.num_documents} documents, mean counts of seeds: "),
                number(found.difference, runs, "+.2f"), Span(" ("),
                number(found.low, runs, "+.2f"), Span(" to "), number(found.high, runs, "+.2f"),
                Span(f"); one-sided p {'≤' if is_least else '='} "),
                number(found.p, runs, ".4f"),
                Span(f" of {found.num_draws:,} draws. Means of counts, so that the difference is "
                     "not quite that of the mean scores."),
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


def _settings(groups: Sequence[Group], found: Sequence[Dataset]) -> Iterator[Block]:
    """What was chosen, and folded below it what it was chosen from."""
    rows: list[list[Text | None]] = []
    for dataset in found:
        for group in chosen(groups, dataset):
            tried = select(groups, dataset, group.elmo)
            is_first = not rows or group is chosen(groups, dataset)[0]
            rows.append([title(dataset, groups) if is_first else None, model_name(group.elmo),
                         str(len(tried)), describe(group)])  # fmt: skip
    head = "task", "model", "chosen from", "settings"
    yield Details(
        "Settings that the development part chose",
        [Table("Settings of the rows of Table 1, and how many were tried.", head, rows, 4)],
    )
    for dataset in found:
        every = [select(groups, dataset, model) for model in ["", *models(groups)]]
        count = sum(len(tried) for tried in every)
        if any(tried[1:] for tried in every):
            yield Details(
                f"{title(dataset, groups)}: all {count} settings that were tried",
                [_trials(title(dataset, groups), every)],
            )


def _trials(name: str, every: Sequence[Sequence[Group]]) -> Table:
    rows: list[list[Text | None]] = []
    for tried in every:
        for group, apart in zip(tried, differences(tried), strict=True):
            is_first = group is tried[0]
            chosen_mark = [Span(" (chosen)", kind="strong")] if is_first and tried[1:] else []
            rows.append([
                model_name(group.elmo) if is_first else None,
                [Span(apart or "one setting"), *chosen_mark],
                seeds(group),
                number(group.mean("dev"), group.runs),
                number(group.mean("test"), group.runs),
                spread(group),
                number(fmean(run.record["seconds"] for run in group.runs) / 60, group.runs, ".1f"),
            ])  # fmt: skip
    head = (
        "model",
        "settings, and what others change",
        "seeds",
        "development",
        "test",
        "lowest–highest",
        "minutes",
    )
    caption = f"{name}: settings, those with {ENOUGH_SEEDS} seeds first, by development score."
    return Table(caption, head, rows, 2)


def _plain(group: Group) -> str:
    """The model's name in a sentence."""
    return model_name(group.elmo).removeprefix("+ ")


def _pictures(groups: Sequence[Group], found: Sequence[Dataset]) -> Figure:
    """Scores, and the error that ELMo takes away, the paper's below ours; of our models alone."""
    shown = main_models(groups)
    groups = [group for group in groups if not group.elmo or group.elmo in shown]
    scores, errors = [], []
    for dataset in found:
        name, others, best = (
            title(dataset, groups),
            paper.TABLE_1.get(dataset.task),
            chosen(groups, dataset),
        )
        values = [(mark(group.elmo), group.mean("test")) for group in best]
        theirs = (float(others.baseline), float(others.elmo)) if others else ()
        scores.append(Dumbbell(name, values, theirs))
        before = 100.0 if best[0].elmo else best[0].mean("test")
        less = [
            (mark(group.elmo), error_reduction(before, group.mean("test")))
            for group in best[1:]
            if before < 100
        ]
        if less:
            errors.append(Dumbbell(name, less, (float(others.reduction),) if others else ()))
    legend = [(mark(name), name.removeprefix("relmo-en-")) for name in shown]
    every = [("s0", "baseline"), *legend]
    drawn = {"tasks-scores": ("Test scores, %", scores, every)}
    if errors:
        drawn["tasks-errors"] = ("Error taken away by ELMo, %", errors, legend)
    pictures = {
        name: dumbbells(
            name, heading, _words(rows, dict(marks)), rows, [*marks, ("paper", "the paper")]
        )
        for name, (heading, rows, marks) in drawn.items()
    }
    return Figure(
        pictures,
        "Test scores without and with ELMo, and the percentage of the error that ELMo takes away; "
        "rings below each row are the paper's, on its own data. Scales do not begin at zero.",
    )


def _words(rows: Sequence[Dumbbell], names: Mapping[str, str]) -> str:
    each = (
        f"{row.label}: {', '.join(f'{names[own]} {v:.1f}' for own, v in row.values)}"
        for row in rows
    )
    return f"{'; '.join(each)}."


def _missing(groups: Sequence[Group], found: Sequence[Dataset]) -> Iterator[Missing | Caveat]:
    absent = [task for task in paper.TABLE_1 if task not in {dataset.task for dataset in found}]
    if absent:
        yield Missing(f"No run of {listed(absent)}.")
    for model in ("", *MODELS):
        lacking = [title(d, groups) for d in found if not select(groups, d, model)]
        if lacking:
            yield Missing(f"No run of {model or 'the baseline'} on {'; '.join(lacking)}.")
    single = [
        f"{corpus(dataset, groups)} ({model_name(group.elmo)})"
        for dataset in found
        for group in chosen(groups, dataset)
        if len(group.runs) == 1
    ]
    if single:
        yield Caveat(f"One seed only, so without spread: {'; '.join(single)}.")
    for dataset in found:
        tried = {g.elmo: len(select(groups, dataset, g.elmo)) for g in chosen(groups, dataset)}
        for model, count in tried.items():
            if count > tried.get("", count):
                yield Caveat(
                    f"{title(dataset, groups)}: {count} settings of {model} were tried but "
                    f"{tried['']} of the baseline, which favours {model}."
                )


def _hardware(groups: Sequence[Group]) -> list[str]:
    return sorted({str(run.record.get("hardware", "")) for g in groups for run in g.runs})
