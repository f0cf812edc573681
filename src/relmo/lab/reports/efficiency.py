"""Figure 1: how little labelled data, and how few updates, a task needs with ELMo."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

from relmo.lab.reports.blocks import (
    NOTHING,
    Block,
    Caveat,
    Claim,
    Figure,
    Missing,
    Paragraph,
    Section,
    Span,
    Table,
    Text,
    number,
    versus,
)
from relmo.lab.reports.names import against, listed, mark, mean_score, model_name, slug, title
from relmo.lab.reports.plots import Series, curves
from relmo.lab.reports.records import (
    BOUNDS,
    ENOUGH_SEEDS,
    MEASURES,
    Dataset,
    Group,
    Run,
    datasets,
    differences,
    main_models,
    models,
    select,
)

EXPECTED = "ner", "sst"
SHARES = 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0
"""What is asked for."""


def figure_1(groups: Sequence[Group]) -> Section:
    """The section."""
    found = datasets(group for group in groups if group.share < 1)
    blocks: list[Block] = []
    if found:
        blocks += [
            Paragraph(
                "Test scores by the share of the training data that was used; at each share the "
                "settings are those that were chosen on the development part, so that they can "
                "differ from share to share, and so can the bound on updates. Bars reach from the "
                "lowest to the highest seed; scales do not begin at zero. What a share with ELMo "
                "is worth is the share with which the baseline is as good, on a straight line "
                "between the shares that were run, their scale logarithmic."
            ),
            Figure(
                {_picture_name(groups, dataset): _picture(groups, dataset)
                 for dataset in found},
                "Score by share of the training data (logarithmic).",
            ),
            *(_table(groups, dataset) for dataset in found),
            *(claim for dataset in found for claim in _claims(groups, dataset)),
            *(caveat for dataset in found for caveat in _unfinished(groups, dataset)),
        ]  # fmt: skip
    return Section(
        "efficiency",
        "Figure 1: how little data it takes",
        "Semantic roles with ELMo and 1 % of the data equal the baseline with 10 %; ELMo passed "
        "the baseline's best after 10 epochs instead of 486, with 98 % fewer updates.",
        [*blocks, *_missing_shares(groups, found), *_updates(groups)],
    )


def updates_to(run: Run, target: float) -> int | None:
    """The first step at which a run's development score was the target; None if it never was."""
    curve = run.record.get("curve") or {}
    values = curve.get(f"dev_{MEASURES[run.task]}", [])
    steps = zip(curve.get("step", []), values, strict=True)
    return next((step for step, value in steps if value >= target), None)


def _lines(groups: Sequence[Group], dataset: Dataset) -> dict[str, dict[float, Group]]:
    """Model -> share -> the group that the development part chooses."""
    lines = {}
    for model in ["", *main_models(groups)]:
        shares = sorted({g.share for g in groups if (g.dataset, g.elmo) == (dataset, model)})
        lines[model] = {share: select(groups, dataset, model, share)[0] for share in shares}
    return {model: line for model, line in lines.items() if line}


def _picture_name(groups: Sequence[Group], dataset: Dataset) -> str:
    return f"share-{slug(title(dataset, groups))}"


def _picture(groups: Sequence[Group], dataset: Dataset) -> str:
    lines = _lines(groups, dataset)
    series = [
        Series(model or "baseline", mark(model), [
            (share, group.mean("test"), min(group.scores("test")), max(group.scores("test")))
            for share, group in line.items()
        ])
        for model, line in lines.items()
    ]  # fmt: skip
    shares = sorted({share for line in lines.values() for share in line})
    name = title(dataset, groups)
    words = "; ".join(
        f"{one.label}: " + ", ".join(f"{y:.1f} at {x:.0%}" for x, y, _, _ in one.points)
        for one in series
    )
    ticks = [(share, f"{100 * share:g} %") for share in shares]
    return curves(
        _picture_name(groups, dataset), name, f"Score by share of the training data. {words}.",
        series, "share of the training data", ticks, is_log=True,
    )  # fmt: skip


def equal_share(line: Mapping[float, float], score: float) -> float:
    """The share at which a line of scores by share first is as high; 0 before, infinity behind it.

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
    if not baseline:
        return NOTHING
    scores = {share: own.mean("test") for share, own in baseline.items()}
    share = 100 * equal_share(scores, group.mean("test"))
    runs = [*group.runs, *(run for own in baseline.values() for run in own.runs)]
    if not 0 < share < math.inf:
        limit, sign = (min(scores), "<") if share == 0 else (max(scores), ">")
        return [Span(f"{sign} "), number(100 * limit, runs, "g"), Span(" %")]
    return [number(share, runs, ".0f" if share >= 10 else ".1f"), Span(" %")]


def _table(groups: Sequence[Group], dataset: Dataset) -> Table:
    lines = _lines(groups, dataset)
    baseline = lines.get("", {})
    rows: list[list[Text | None]] = []
    for share in sorted({share for line in lines.values() for share in line}):
        row: list[Text | None] = [f"{100 * share:g} %", _bound(lines, share)]
        for line in lines.values():
            group = line.get(share)
            row += [mean_score(group, "test") if group else NOTHING]
            row += [number(len(group.runs), group.runs, "d") if group else NOTHING]
            if line is not baseline:
                row += [_worth(baseline, group) if group else NOTHING]
        rows.append(row)
    head = ["share", "trained for"]
    for model, line in lines.items():
        head += [model_name(model), "seeds", *(["worth"] if line is not baseline else [])]
    caption = f"{title(dataset, groups)}: test score by share of the training data."
    return Table(caption, head, rows, 2)


def _bound(lines: Mapping[str, Mapping[float, Group]], share: float) -> str:
    """How long runs at a share may take, early stopping aside: `3,000 updates`."""
    found: dict[str, None] = {}  # in the order of the lines, each once
    for line in lines.values():
        if share in line:
            has = line[share].settings.get
            bounds = ((has(key), unit) for key, unit in BOUNDS.items())
            found[" or ".join(f"{count:,g} {unit}" for count, unit in bounds if count)] = None
    return "; ".join(filter(None, found))


def _unfinished(groups: Sequence[Group], dataset: Dataset) -> Iterator[Caveat]:
    """Points whose runs were best at their last update: with more they might be better."""
    points = [
        f"{100 * share:g} % {'with ' + model if model else 'of the baseline'}"
        for model, line in _lines(groups, dataset).items()
        for share, group in line.items()
        if all(run.record.get("best_step") == run.record.get("steps", -1) for run in group.runs)
    ]
    if points:
        yield Caveat(
            f"{title(dataset, groups)}: all runs were best at their last update, so that more "
            f"might be better: {listed(points)}."
        )


def _claims(groups: Sequence[Group], dataset: Dataset) -> Iterator[Claim]:
    lines = _lines(groups, dataset)
    whole = lines.get("", {}).get(1.0)
    for model, line in lines.items():
        tenth = line.get(0.1)
        if model and whole and tenth:
            yield Claim(
                f"{title(dataset, groups)}: {model} with 10 % of the data at least as good as the "
                f"baseline with all of it",
                tenth.mean("test") >= whole.mean("test"),
                against(tenth, whole, "test"),
                is_paper=False,
            )
        least, less = line.get(0.01), lines.get("", {}).get(0.1)
        if model and dataset.task == "srl" and least and less:  # what the paper says of this task
            yield Claim(
                f"{title(dataset, groups)}: {model} with 1 % of the data at least as good as the "
                f"baseline with 10 %",
                least.mean("test") >= less.mean("test"),
                against(least, less, "test"),
            )


def _missing_shares(groups: Sequence[Group], found: Sequence[Dataset]) -> Iterator[Missing]:
    none = [task for task in EXPECTED if task not in {dataset.task for dataset in found}]
    if none:
        yield Missing(f"No runs with less than all of the training data on {listed(none)}.")
    for dataset in (dataset for dataset in found if dataset.task in EXPECTED):
        for model, line in _lines(groups, dataset).items():
            lost = [f"{100 * share:g} %" for share in SHARES if share not in line]
            if lost:
                name = f"{title(dataset, groups)}, {model or 'baseline'}"
                yield Missing(f"{name}: not run with {listed(lost)} of the data.")


def _updates(groups: Sequence[Group]) -> Iterator[Block]:
    """Updates to reach the baseline's best development score, where runs kept their curves."""
    rows: list[list[Text | None]] = []
    claims: list[Claim] = []
    silent: list[str] = []
    for dataset in datasets(group for group in groups if group.share == 1):
        name = title(dataset, groups)
        for baseline in select(groups, dataset, "")[:1]:
            for model in models(groups):
                own = select(groups, dataset, model)
                found = _with_curves(own)
                rows += [_update_row(name, baseline, *pair) for pair in found]
                claims += [_update_claim(name, baseline, group) for group, _ in found
                           if dataset.task == "srl"]  # fmt: skip
                silent += [f"{name} ({model_name(model)})"] if own and not found else []
    if rows:
        head = (
            "task", "model", "baseline's best, development", "its updates", "updates to equal it",
            "fewer by",
        )  # fmt: skip
        yield Table("Updates until the baseline's best score, all training data.", head, rows, 2)
        yield from claims
        if silent:
            yield Missing(f"No curves in the records of {'; '.join(silent)}.")
    else:
        yield Missing("No curves in the records, so no updates until the baseline's best score.")


def _with_curves(own: Sequence[Group]) -> list[tuple[Group, str]]:
    """The chosen group's runs that kept a curve; if none did, the best of as many seeds that did.

    Args:
        own: groups of a data set and model, the one that the development part chooses first.

    Returns:
        The runs and what sets them apart from the chosen group; nothing where there are none.
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


def _update_claim(name: str, baseline: Group, group: Group) -> Claim:
    """Of semantic roles: what the paper found there."""
    needed, reached = _counted(baseline, group)
    are_all = len(reached) == len(group.runs)
    ours: list[Span] = [Span("never", group.runs[0])]
    if are_all:
        ours = versus(number(fmean(reached), group.runs, ",.0f"),
                      number(needed, baseline.runs, ",.0f"))  # fmt: skip
    return Claim(
        f"{name}: {group.elmo} as good as the baseline's best after fewer updates",
        are_all and fmean(reached) < needed,
        ours,
    )


def _counted(baseline: Group, group: Group) -> tuple[float, list[int]]:
    """Updates until the baseline's best, its own and those of each run that was as good."""
    target = baseline.mean("dev")
    reached = (updates_to(run, target) for run in group.runs)
    needed = fmean(run.record["best_step"] for run in baseline.runs)
    return needed, [step for step in reached if step is not None]


def _update_row(name: str, baseline: Group, group: Group, apart: str) -> list[Text | None]:
    needed, reached = _counted(baseline, group)
    count: Text = Span("never", group.runs[0])
    fewer: Text = NOTHING
    if reached:
        count = number(fmean(reached), group.runs, ",.0f")
        fewer = [number(100 * (1 - fmean(reached) / needed), group.runs, ".0f"), Span(" %")]
        if len(reached) < len(group.runs):
            count = [count, Span(f" in {len(reached)} of {len(group.runs)} runs", kind="weak")]
    model: Text = model_name(group.elmo)
    if apart:
        model = [Span(model_name(group.elmo)), Span(f" ({apart})", kind="weak")]
    return [
        name, model, number(baseline.mean("dev"), baseline.runs),
        number(needed, baseline.runs, ",.0f"), count, fewer,
    ]  # fmt: skip
