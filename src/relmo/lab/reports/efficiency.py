"""Figure 1: how little labeled data, and how few updates, a task needs with ELMo."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise, product
from statistics import fmean
from typing import TypeAlias

from relmo.lab.reports import page
from relmo.lab.reports.groups import ENOUGH_SEEDS, Dataset, Group, Records, differences
from relmo.lab.reports.plots import Series, curves
from relmo.lab.reports.records import TASKS, RunFile

Lines: TypeAlias = dict[str, dict[float, Group]]
"""Model -> share of the training data -> the chosen group."""


def figure_1(records: Records) -> page.Section:
    """Scores by share of the training data, and updates until the baseline's best score."""
    lines = {d: _lines(records, d) for d in records.datasets(lambda group: group.share < 1)}
    blocks: list[page.Block] = []
    if lines:
        caption = "Score by share of the training data (logarithmic)."
        blocks = [
            page.Figure(dict(_picture(records, *item) for item in lines.items()), caption),
            *(_table(records, *item) for item in lines.items()),
            *(claim for item in lines.items() for claim in _claims(records, *item)),
            *(caveat for item in lines.items() for caveat in _unfinished(records, *item)),
        ]
    return records.section("efficiency", blocks, [*_missing(records, lines), *_updates(records)])


def _lines(records: Records, dataset: Dataset) -> Lines:
    lines: Lines = {}
    shares = sorted({group.share for group in records.groups})
    for model, share in product(["", *records.main_models], shares):
        if own := records.select(dataset, model, share):
            lines.setdefault(model, {})[share] = own[0]
    return lines


def _picture(records: Records, dataset: Dataset, lines: Lines) -> tuple[str, str]:
    """File name and picture."""
    series = []
    for model, line in lines.items():
        scores = {share: group.scores("test") for share, group in line.items()}
        points = [(share, fmean(each), min(each), max(each)) for share, each in scores.items()]
        series.append(Series(model or "baseline", records.mark(model), points))
    each = (
        f"{one.label}: " + ", ".join(f"{y:.1f} at {x:.0%}" for x, y, _, _ in one.points)
        for one in series
    )
    words = f"Score by share of the training data. {'; '.join(each)}."
    ticks = [(x, f"{100 * x:g} %") for x in sorted({*chain(*lines.values())})]
    title, label = records.title(dataset), "share of the training data"
    name = f"share-{page.slug(title)}"
    return name, curves(name, title, words, series, label, ticks, is_log=True)


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


def _worth(baseline: Mapping[float, Group], group: Group) -> page.Text:
    """With how much of the data the baseline is as good as a group with ELMo."""
    scores = {share: own.mean("test") for share, own in baseline.items()}
    if not scores:
        return page.NOTHING
    share = 100 * equal_share(scores, group.mean("test"))
    runs = [*group.runs, *(run for own in baseline.values() for run in own.runs)]
    if not 0 < share < math.inf:
        limit, sign = (min(scores), "<") if share == 0 else (max(scores), ">")
        return page.text(f"{sign} ", page.number(100 * limit, runs, "g"), " %")
    return page.text(page.number(share, runs, ".0f" if share >= 10 else ".1f"), " %")


def _table(records: Records, dataset: Dataset, lines: Lines) -> page.Table:
    head, baseline = ["share", "trained for"], lines.get("", {})
    for model in lines:
        head += [records.model_name(model), "seeds", *(["worth"] if model else [])]
    rows: list[page.Row] = []
    for share in sorted({*chain(*lines.values())}):
        bounds = [" or ".join(own[share].limits(",g")) for own in lines.values() if share in own]
        trained_for = "; ".join(dict.fromkeys(filter(None, bounds)))  # each once, in order
        row: list[page.Text] = [f"{100 * share:g} %", trained_for]
        for model, line in lines.items():
            cells: list[page.Text] = [page.NOTHING, page.NOTHING, page.NOTHING]
            if share in line:
                group = line[share]
                count = page.number(len(group.runs), group.runs, "d")
                cells = [group.cell("test"), count, _worth(baseline, group)]
            row += cells if model else cells[:2]
        rows.append(row)
    caption = f"{records.title(dataset)}: test score by share of the training data."
    return page.Table(caption, head, rows, 2)


def _unfinished(records: Records, dataset: Dataset, lines: Lines) -> Iterator[page.Caveat]:
    """Points whose runs were best at their last update: longer training might improve them."""
    points = [
        f"{100 * share:g} % {'with ' + model if model else 'of the baseline'}"
        for model, line in lines.items()
        for share, group in line.items()
        if all(run.record.get("best_step") == run.record.get("steps", -1) for run in group.runs)
    ]
    if points:
        yield page.Caveat(
            f"{records.title(dataset)}: all runs were best at their last update, so more updates "
            f"might help: {page.listed(points)}."
        )


def _claims(records: Records, dataset: Dataset, lines: Lines) -> Iterator[page.Claim]:
    """10 % against all of the data and, as the paper does for semantic roles, 1 % against 10 %."""
    baseline, pairs = lines.get("", {}), [(0.1, 1.0, "all of it", False)]
    pairs += [(0.01, 0.1, "10 %", True)] if dataset.task == "srl" else []
    for model, line in lines.items():
        for less, more, whole, is_paper in pairs:
            if model and less in line and more in baseline:
                yield page.Claim(
                    f"{records.title(dataset)}: {model} with {100 * less:g} % of the data at least "
                    f"as good as the baseline with {whole}",
                    line[less].mean("test") >= baseline[more].mean("test"),
                    line[less].against(baseline[more], "test"),
                    is_paper,
                )


def _missing(records: Records, found: Mapping[Dataset, Lines]) -> Iterator[page.Missing]:
    """Shares that the study should contain but did not run."""
    tasks = {dataset.task for dataset in found}
    none = page.listed([task for task in records.study.share_tasks if task not in tasks])
    if none:
        yield page.Missing(f"No runs with less than all of the training data on {none}.")
    for dataset, lines in found.items():
        for model, line in lines.items() if dataset.task in records.study.share_tasks else ():
            lost = [f"{100 * share:g} %" for share in records.study.shares if share not in line]
            if lost:
                name = f"{records.title(dataset)}, {model or 'baseline'}"
                yield page.Missing(f"{name}: not run with {page.listed(lost)} of the data.")


def updates_to(run: RunFile, target: float) -> int | None:
    """The first step at which a run's development score reached a target; None if it never did."""
    curve = run.record.get("curve") or {}
    values = curve.get(f"dev_{TASKS[run.task]['measure']}", [])
    steps = zip(curve.get("step", []), values, strict=True)
    return next((step for step, value in steps if value >= target), None)


def _updates(records: Records) -> Iterator[page.Block]:
    """Updates until the baseline's best development score, for runs that kept their curves."""
    rows: list[page.Row] = []
    claims: list[page.Claim] = []
    silent: list[str] = []
    for dataset in records.datasets(lambda group: group.share == 1):
        for baseline, model in product(records.select(dataset, "")[:1], records.models):
            name, label = records.title(dataset), records.model_name(model)
            own = records.select(dataset, model)
            found = _with_curves(own)
            if found:
                group, apart = found
                which = page.text(label, page.weak(f" ({apart})" if apart else ""))
                row, claim = _compare_updates(name, baseline, group)
                rows.append([name, which, *row])
                claims += [claim] if dataset.task == "srl" else []  # where the paper states it
            elif own:
                silent.append(f"{name} ({label})")
    if not rows:
        yield page.Missing("No curves in the records, so no updates to the baseline's best score.")
        return
    yield page.table("updates", rows)
    yield from claims
    if silent:
        yield page.Missing(f"No curves in the records of {'; '.join(silent)}.")


def _with_curves(own: Sequence[Group]) -> tuple[Group, str] | None:
    """The chosen group's runs that kept a curve; else the best group with as many seeds that did.

    Args:
        own: groups of a data set and model, the chosen one first.

    Returns:
        The runs and what sets them apart from the chosen group; None if no run kept a curve.
    """
    for group in own:
        runs = tuple(run for run in group.runs if run.record.get("curve"))
        is_chosen = group is own[0]
        if runs and (is_chosen or len(runs) >= min(len(own[0].runs), ENOUGH_SEEDS)):
            apart = [] if is_chosen else [differences([own[0], group])[1]]
            if len(runs) < len(group.runs):
                apart.append(f"{len(runs)} of {len(group.runs)} runs")
            return replace(group, runs=runs), ", ".join(apart)
    return None


def _compare_updates(
    name: str, baseline: Group, group: Group
) -> tuple[list[page.Text], page.Claim]:
    """Updates until the baseline's best score, its own and those of a group, as cells and claim."""
    target = baseline.mean("dev")
    needed = fmean(run.record["best_step"] for run in baseline.runs)
    steps = [updates_to(run, target) for run in group.runs]
    reached = [step for step in steps if step is not None]
    are_all = len(reached) == len(steps)
    never = page.Span("never", group.runs[0])
    theirs, count = page.number(needed, baseline.runs, ",.0f"), [never]
    fewer: page.Text = page.NOTHING
    if reached:
        part = "" if are_all else f" in {len(reached)} of {len(steps)} runs"
        ours = page.number(fmean(reached), group.runs, ",.0f")
        count = page.text(ours, page.weak(part))
        less = page.number(100 * (1 - fmean(reached) / needed), group.runs, ".0f")
        fewer = page.text(less, " %")
    claim = page.Claim(
        f"{name}: {group.elmo} as good as the baseline's best after fewer updates",
        are_all and fmean(reached) < needed,
        page.text(count[0], " against ", theirs) if are_all else never,
    )
    return [page.number(target, baseline.runs), theirs, count, fewer], claim
