"""Figure 1: how little labeled data, and how few updates, a task needs with ELMo."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import TypeAlias

from relmo.lab.reports.blocks import (
    NOTHING,
    Block,
    Caveat,
    Claim,
    Figure,
    Missing,
    Row,
    Section,
    Span,
    Table,
    Text,
    number,
    percent,
    versus,
)
from relmo.lab.reports.groups import (
    BOUNDS,
    ENOUGH_SEEDS,
    Dataset,
    Group,
    Records,
    differences,
    listed,
    slug,
)
from relmo.lab.reports.plots import Series, curves
from relmo.lab.reports.records import TASKS, Run

Lines: TypeAlias = dict[str, dict[float, Group]]
"""Model -> share of the training data -> the chosen group."""


def figure_1(records: Records) -> Section:
    """Scores by share of the training data, and updates until the baseline's best score."""
    lines = {d: _lines(records, d) for d in records.datasets(lambda group: group.share < 1)}
    blocks: list[Block] = []
    if lines:
        caption = "Score by share of the training data (logarithmic)."
        blocks = [
            Figure(dict(_picture(records, *item) for item in lines.items()), caption),
            *(_table(records, *item) for item in lines.items()),
            *(claim for item in lines.items() for claim in _claims(records, *item)),
            *(caveat for item in lines.items() for caveat in _unfinished(records, *item)),
        ]
    return records.section("efficiency", blocks, [*_missing(records, lines), *_updates(records)])


def _lines(records: Records, dataset: Dataset) -> Lines:
    lines: Lines = {}
    for model in ["", *records.main_models]:
        own = [g for g in records.groups if (g.dataset, g.elmo) == (dataset, model)]
        shares = sorted({group.share for group in own})
        if shares:
            lines[model] = {share: records.select(dataset, model, share)[0] for share in shares}
    return lines


def _shares(lines: Lines) -> list[float]:
    return sorted({share for line in lines.values() for share in line})


def _picture(records: Records, dataset: Dataset, lines: Lines) -> tuple[str, str]:
    """File name and picture."""
    series = []
    for model, line in lines.items():
        scores = (
            (share, group.mean("test"), group.scores("test")) for share, group in line.items()
        )
        points = [(share, mean, min(each), max(each)) for share, mean, each in scores]
        series.append(Series(model or "baseline", records.mark(model), points))
    words = "; ".join(
        f"{one.label}: " + ", ".join(f"{y:.1f} at {x:.0%}" for x, y, _, _ in one.points)
        for one in series
    )
    title = records.title(dataset)
    name = f"share-{slug(title)}"
    ticks = [(share, f"{100 * share:g} %") for share in _shares(lines)]
    return name, curves(
        name, title, f"Score by share of the training data. {words}.", series,
        "share of the training data", ticks, is_log=True,
    )  # fmt: skip


def equal_share(line: Mapping[float, float], score: float) -> float:
    """The share at which a line of scores first reaches a score; 0 before it, infinity after it.

    Between two shares the line is straight over the logarithm of the share.
    """
    shares = sorted(line)
    if line[shares[0]] > score:
        return 0.0
    for low, high in pairwise(shares):
        if line[low] <= score <= line[high]:
            part = (score - line[low]) / ((line[high] - line[low]) or 1)
            return float(low * (high / low) ** part)
    return math.inf


def _worth(baseline: Mapping[float, Group], group: Group) -> Text:
    """With how much of the data the baseline is as good as a group with ELMo."""
    scores = {share: own.mean("test") for share, own in baseline.items()}
    if not scores:
        return NOTHING
    share = 100 * equal_share(scores, group.mean("test"))
    runs = [*group.runs, *(run for own in baseline.values() for run in own.runs)]
    if not 0 < share < math.inf:
        limit, sign = (min(scores), "<") if share == 0 else (max(scores), ">")
        return [Span(f"{sign} "), *percent(100 * limit, runs, "g")]
    return percent(share, runs, ".0f" if share >= 10 else ".1f")


def _table(records: Records, dataset: Dataset, lines: Lines) -> Table:
    head, baseline = ["share", "trained for"], lines.get("", {})
    for model in lines:
        head += [records.model_name(model), "seeds", *(["worth"] if model else [])]
    rows: list[Row] = []
    for share in _shares(lines):
        row: list[Text] = [f"{100 * share:g} %", _bound(lines, share)]
        for model, line in lines.items():
            cells: list[Text] = [NOTHING, NOTHING, NOTHING]
            if share in line:
                group = line[share]
                count = number(len(group.runs), group.runs, "d")
                cells = [group.cell("test"), count, _worth(baseline, group)]
            row += cells if model else cells[:2]
        rows.append(row)
    caption = f"{records.title(dataset)}: test score by share of the training data."
    return Table(caption, head, rows, 2)


def _bound(lines: Lines, share: float) -> str:
    """How long runs at a share may take, apart from early stopping: `3,000 updates`."""
    found: dict[str, None] = {}  # an ordered set
    for line in lines.values():
        if share in line:
            has = line[share].settings.get
            bounds = ((has(key), unit) for key, unit in BOUNDS.items())
            found[" or ".join(f"{count:,g} {unit}" for count, unit in bounds if count)] = None
    return "; ".join(filter(None, found))


def _unfinished(records: Records, dataset: Dataset, lines: Lines) -> Iterator[Caveat]:
    """Points whose runs were best at their last update: longer training might improve them."""
    points = [
        f"{100 * share:g} % {'with ' + model if model else 'of the baseline'}"
        for model, line in lines.items()
        for share, group in line.items()
        if all(run.record.get("best_step") == run.record.get("steps", -1) for run in group.runs)
    ]
    if points:
        yield Caveat(
            f"{records.title(dataset)}: all runs were best at their last update, so more updates "
            f"might help: {listed(points)}."
        )


def _claims(records: Records, dataset: Dataset, lines: Lines) -> Iterator[Claim]:
    """10 % against all of the data and, as the paper does for semantic roles, 1 % against 10 %."""
    baseline, pairs = lines.get("", {}), [(0.1, 1.0, "all of it", False)]
    pairs += [(0.01, 0.1, "10 %", True)] if dataset.task == "srl" else []
    for model, line in lines.items():
        for less, more, whole, is_paper in pairs:
            if model and less in line and more in baseline:
                yield Claim(
                    f"{records.title(dataset)}: {model} with {100 * less:g} % of the data at least "
                    f"as good as the baseline with {whole}",
                    line[less].mean("test") >= baseline[more].mean("test"),
                    line[less].against(baseline[more], "test"),
                    is_paper,
                )


def _missing(records: Records, found: Mapping[Dataset, Lines]) -> Iterator[Missing]:
    """Shares that the study should contain but did not run."""
    tasks = {dataset.task for dataset in found}
    none = [task for task in records.study.share_tasks if task not in tasks]
    if none:
        yield Missing(f"No runs with less than all of the training data on {listed(none)}.")
    for dataset, lines in found.items():
        for model, line in lines.items() if dataset.task in records.study.share_tasks else ():
            lost = [f"{100 * share:g} %" for share in records.study.shares if share not in line]
            if lost:
                name = f"{records.title(dataset)}, {model or 'baseline'}"
                yield Missing(f"{name}: not run with {listed(lost)} of the data.")


def updates_to(run: Run, target: float) -> int | None:
    """The first step at which a run's development score reached a target; None if it never did."""
    curve = run.record.get("curve") or {}
    values = curve.get(f"dev_{TASKS[run.task].measure}", [])
    steps = zip(curve.get("step", []), values, strict=True)
    return next((step for step, value in steps if value >= target), None)


def _updates(records: Records) -> Iterator[Block]:
    """Updates until the baseline's best development score, for runs that kept their curves."""
    rows: list[Row] = []
    claims: list[Claim] = []
    silent: list[str] = []
    for dataset in records.datasets(lambda group: group.share == 1):
        name = records.title(dataset)
        for baseline in records.select(dataset, "")[:1]:
            for model in records.models:
                own = records.select(dataset, model)
                found = _with_curves(own)
                for group, apart in found:
                    label = [Span(records.model_name(model))]
                    label += [Span(f" ({apart})", kind="weak")] if apart else []
                    row, claim = _compare_updates(name, baseline, group)
                    rows.append([name, label, *row])
                    claims += [claim] if dataset.task == "srl" else []  # where the paper states it
                if own and not found:
                    silent.append(f"{name} ({records.model_name(model)})")
    if not rows:
        yield Missing("No curves in the records, so no updates until the baseline's best score.")
        return
    head = (
        "task", "model", "baseline's best, development", "its updates", "updates to equal it",
        "fewer by",
    )  # fmt: skip
    yield Table("Updates until the baseline's best score, all training data.", head, rows, 2)
    yield from claims
    if silent:
        yield Missing(f"No curves in the records of {'; '.join(silent)}.")


def _with_curves(own: Sequence[Group]) -> list[tuple[Group, str]]:
    """The chosen group's runs that kept a curve; else the best group with as many seeds that did.

    Args:
        own: groups of a data set and model, the chosen one first.

    Returns:
        The runs and what sets them apart from the chosen group; empty if no run kept a curve.
    """
    for group in own:
        runs = tuple(run for run in group.runs if run.record.get("curve"))
        is_chosen = group is own[0]
        if runs and (is_chosen or len(runs) >= min(len(own[0].runs), ENOUGH_SEEDS)):
            apart = [] if is_chosen else [differences([own[0], group])[1]]
            if len(runs) < len(group.runs):
                apart.append(f"{len(runs)} of {len(group.runs)} runs")
            return [(replace(group, runs=runs), ", ".join(apart))]
    return []


def _compare_updates(name: str, baseline: Group, group: Group) -> tuple[list[Text], Claim]:
    """Updates until the baseline's best score, its own and those of a group, as cells and claim."""
    target = baseline.mean("dev")
    needed = fmean(run.record["best_step"] for run in baseline.runs)
    steps = [updates_to(run, target) for run in group.runs]
    reached = [step for step in steps if step is not None]
    theirs = number(needed, baseline.runs, ",.0f")
    count: list[Span] = [Span("never", group.runs[0])]
    figures, fewer = count, [NOTHING]
    if reached:
        ours = number(fmean(reached), group.runs, ",.0f")
        count = [ours]
        fewer = percent(100 * (1 - fmean(reached) / needed), group.runs, ".0f")
        if len(reached) < len(steps):
            count.append(Span(f" in {len(reached)} of {len(steps)} runs", kind="weak"))
        else:
            figures = versus(ours, theirs)
    claim = Claim(
        f"{name}: {group.elmo} as good as the baseline's best after fewer updates",
        len(reached) == len(steps) and fmean(reached) < needed,
        figures,
    )
    return [number(target, baseline.runs), theirs, count, fewer], claim
