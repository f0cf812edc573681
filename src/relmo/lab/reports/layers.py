"""Tables 2 and 3 and Figure 2: how layers are weighted, where ELMo is added, what tasks learn.

Tables 2 and 3 compare runs whose recipes differ in one thing. If there are several such families,
the one with the most variants is shown, then the one that is best on the development part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from relmo.lab.reports import page
from relmo.lab.reports.groups import ENOUGH_SEEDS, PLACES, Dataset, Group, Records
from relmo.lab.reports.plots import heat_map
from relmo.lab.reports.records import TEXTS, RunFile, ScoredPart, Texts

PARTS: tuple[tuple[ScoredPart, str], ...] = ("dev", "development"), ("test", "test")
MIX_PLACES = "input", "output"


class Family(NamedTuple):
    """Groups of a data set and model that differ in one thing, by its value."""

    dataset: Dataset
    elmo: str
    baseline: Group | None
    variants: Mapping[str, Group]


def compare_settings(records: Records, name: str) -> page.Section:
    """Runs that differ only in some settings: `layers` is Table 2, `places` Table 3."""
    texts = TEXTS[name]
    families = find_families(records, texts["settings"])
    blocks: list[page.Block] = [_table(records, texts, families)] if families else []
    blocks += (claim for family in families for claim in _claims(records, family))
    return records.section(name, blocks, _gaps(records, texts, families))


def find_families(records: Records, keys: Sequence[str]) -> list[Family]:
    """For each data set and model the family that is shown, if there is one."""
    found = []
    for dataset in records.datasets():
        baselines = records.select(dataset, "")
        for model in records.models:
            families: dict[str, dict[str, Group]] = {}
            for group in records.select(dataset, model):
                rest = {k: v for k, v in group.settings.items() if k not in keys}
                own = families.setdefault(json.dumps(rest, sort_keys=True), {})
                values = [group.settings.get(key) for key in keys]
                variant = "top" if "top" in values else values[-1]
                name = variant if isinstance(variant, str) else f"{variant:g}"
                own.setdefault(name, group)  # the best one comes first
            largest = max(families.values(), key=len, default={})
            if len(largest) > 1:
                found.append(Family(dataset, model, _alike(baselines, largest), largest))
    return found


def _alike(baselines: Sequence[Group], variants: Mapping[str, Group]) -> Group | None:
    """The baseline with the recipe of the variants, otherwise the first, which is the best."""
    recipe = next(iter(variants.values())).settings
    for group in baselines:
        has_seeds = len(group.runs) >= min(ENOUGH_SEEDS, len(baselines[0].runs))
        if has_seeds and all(recipe.get(key) == value for key, value in group.settings.items()):
            return group
    return baselines[0] if baselines else None


def _table(records: Records, texts: Texts, families: Sequence[Family]) -> page.Table:
    """Development and test scores of each family, and the paper's below them."""
    seen = {name for family in families for name in family.variants}
    shown = [name for name in texts["variants"] if name in seen or name != "0"]
    rows: list[page.Row] = []
    for family in families:
        name: str | None = f"{records.title(family.dataset)}{_place(family)}"
        every = [family.baseline, *(family.variants.get(column) for column in shown)]
        ends = sorted(family.variants.values(), key=lambda group: len(group.runs))
        counts = {len(group.runs): group.runs for group in (ends[0], ends[-1])}
        seeds = page.join((page.number(n, runs, "d") for n, runs in counts.items()), "–")
        for part, label in PARTS:
            cells = [group.cell(part) if group else page.NOTHING for group in every]
            rows.append([name, f"{records.model_name(family.elmo)}, {label}", seeds, *cells])
            name = None
        theirs = texts["published"].get(family.dataset.task)
        if theirs:
            found = (theirs.get(column) for column in ["baseline", *shown])
            cells = [page.published(figure) if figure else page.NOTHING for figure in found]
            rows.append([None, "the paper, development", page.NOTHING, *cells])
    head = ["task", "model, part", "seeds", "baseline", *(texts["variants"][n] for n in shown)]
    return page.Table(texts["caption"], head, rows, 2)


def _place(family: Family) -> str:
    """Where ELMo is added, if that is one place and not the usual one."""
    places = {str(group.settings.get("input.place", "input")) for group in family.variants.values()}
    is_unusual = len(places) == 1 and places != {"input"}
    return f", ELMo at {PLACES[places.pop()]}" if is_unusual else ""


def _claims(records: Records, family: Family) -> Iterator[page.Claim]:
    """What the paper says about weights and places, if the family has the variants for it."""
    variants, task = family.variants, family.dataset.task
    pairs: list[tuple[str, str, Sequence[str], bool]] = []
    mixes = [name for name in variants if name not in ("top", *PLACES)]
    if "top" in variants and mixes:
        best = max(mixes, key=lambda name: variants[name].mean("dev"))
        what = f"the mix (λ = {best}) at least as good as the top layer alone"
        pairs.append((what, best, ["top"], True))
    if {"0.001", "1"} <= variants.keys() and task != "ner":
        pairs.append(("λ = 0.001 at least as good as λ = 1", "0.001", ["1"], True))
    if {"input", "both"} <= variants.keys():
        is_paper = task in TEXTS["places"]["published"]
        input_alone = "input alone at least as good as both", "input", ["both"], is_paper
        both = "both places at least as good as one", "both", ["input", "output"], is_paper
        pairs.append(input_alone if task == "srl" else both)
    for what, first, rest, is_paper in pairs:
        others = [variants[name] for name in rest if name in variants]
        second = max(others, key=lambda group: group.mean("dev"))
        yield page.Claim(
            f"{records.title(family.dataset)}, {family.elmo}, development: {what}",
            variants[first].mean("dev") >= second.mean("dev"),
            variants[first].against(second, "dev"),
            is_paper,
        )


def _gaps(records: Records, texts: Texts, families: Sequence[Family]) -> Iterator[page.Missing]:
    """What the study should compare but did not run; only the first model needs every variant."""
    what = f"differ only in {texts['differ_in']}"
    if not families and not records.study.models:
        yield page.Missing(f"No runs that {what}.")
    for model in records.study.current[:1]:
        own = {family.dataset: family for family in families if family.elmo == model}
        tasks = {dataset.task for dataset in own}
        none = [task for task in records.study.compared_tasks if task not in tasks]
        if none:
            yield page.Missing(f"No runs of {model} that {what} on {page.listed(none)}.")
        for dataset, family in own.items():
            wanted = texts["variants"].keys() - family.variants.keys() - {"0"}
            lost = [name for key, name in texts["variants"].items() if key in wanted]
            if lost:
                yield page.Missing(f"{records.title(dataset)}: not run with {page.listed(lost)}.")
    for model in records.study.current[1:]:
        if families and not any(family.elmo == model for family in families):
            yield page.Missing(f"No such runs of {model}.")


class LearnedMix(NamedTuple):
    """Layer weights that a group of runs learned at a place: means over seeds."""

    group: Group
    weights: list[float]
    gamma: float


def figure_2(records: Records) -> page.Section:
    """Learned layer weights."""
    found = {
        model: {place: find_mixes(records, model, place) for place in MIX_PLACES}
        for model in records.main_models
    }
    blocks: list[page.Block] = []
    for model, mixes in found.items():
        drawn = {place: own for place, own in mixes.items() if own}
        if drawn:
            pictures = dict(_heat_map(records, model, *item) for item in drawn.items())
            caption = f"{model}: shares of the layers by task (a stronger color is more), and γ."
            blocks += [page.Figure(pictures, caption), _mix_table(records, model, mixes)]
            first = [mix for mix in mixes["input"] if max(mix.weights) == mix.weights[1]]
            which = page.listed([records.corpus_name(mix.group.dataset) for mix in first])
            blocks += [page.Claim(
                f"{model}: at the input most tasks favor the first LSTM layer",
                2 * len(first) > len(mixes["input"]),
                f"{len(first)} of {len(mixes['input'])}{': ' if which else ''}{which}",
            )] if mixes["input"] else []  # fmt: skip
    missing: list[page.Block] = []
    for place in MIX_PLACES:
        have = [model for model, mixes in found.items() if mixes[place]]
        missing += records.absent(f"a learned mix at the {place}", have)
    return records.section("mixes", blocks, missing)


def find_mixes(records: Records, model: str, place: str) -> list[LearnedMix]:
    """The learned mix of each data set at a place."""
    found = []
    for dataset in records.datasets():
        own = records.select(dataset, model, keep=lambda g: all(_weights(r, place) for r in g.runs))
        if own:
            each = [_weights(run, place) for run in own[0].runs]
            gammas = [run.record["mixes"][place]["gamma"] for run in own[0].runs]
            weights = [fmean(layer) for layer in zip(*each, strict=True)]
            found.append(LearnedMix(own[0], weights, fmean(gammas)))
    return found


def _weights(run: RunFile, place: str) -> list[float]:
    """Weights of the layers; empty if there was only one to choose from."""
    weights = (run.record.get("mixes") or {}).get(place, {}).get("weights", [])
    return [float(weight) for weight in weights] if len(weights) > 1 else []


def _heat_map(records: Records, model: str, place: str, mixes: list[LearnedMix]) -> tuple[str, str]:
    """File name and picture."""
    columns = [f"layer {n}" for n in range(len(mixes[0].weights))]
    rows = [(records.corpus_name(m.group.dataset), m.weights, f"{m.gamma:.2f}") for m in mixes]
    name = f"mix-{place}-{page.slug(model)}"
    return name, heat_map(name, f"Mix at the {place}, {model}", rows, columns, "γ")


def _mix_table(records: Records, model: str, found: dict[str, list[LearnedMix]]) -> page.Table:
    num_layers = max(len(mix.weights) for mixes in found.values() for mix in mixes)
    rows: list[page.Row] = []
    for place, mixes in found.items():
        for mix in mixes:
            runs, lacking = mix.group.runs, num_layers - len(mix.weights)
            numbers = [page.number(value, runs, ".3f") for value in (*mix.weights, mix.gamma)]
            numbers[-1:-1] = [page.Span("–")] * lacking
            rows.append([records.title(mix.group.dataset), place, mix.group.seeds(), *numbers])
    head = ["task", "place", "seeds", *(f"layer {n}" for n in range(num_layers)), "γ"]
    return page.Table(f"Figure 2 as numbers, {model}.", head, rows, 2)
