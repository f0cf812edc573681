"""Tables 2 and 3: how layers are weighed, and where ELMo is added.

Compared are runs whose recipes differ in that one thing. Where there are several such families, it
is the one with the most variants, then the one that is best on the development part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from relmo.lab.reports import paper
from relmo.lab.reports.blocks import (
    NOTHING,
    Block,
    Claim,
    Missing,
    Paragraph,
    Section,
    Span,
    Table,
    Text,
    join,
    number,
    published,
)
from relmo.lab.reports.names import PLACES, against, listed, mean_score, model_name, title
from relmo.lab.reports.records import (
    ENOUGH_SEEDS,
    MODELS,
    Dataset,
    Group,
    Part,
    datasets,
    models,
    select,
)

EXPECTED = "ner", "sst", "snli"
"""Tasks whose variants are asked for."""
ALIKE = (
    "Recipes of a row differ in nothing else; its baseline has the same without ELMo where that "
    "was run with as many seeds, otherwise what suits it best."
)
PARTS: tuple[tuple[Part, str], ...] = ("dev", "development"), ("test", "test")


@dataclass(frozen=True)
class Family:
    """Groups of a data set and model that differ in one thing, by that."""

    dataset: Dataset
    elmo: str
    baseline: Group | None
    variants: Mapping[str, Group]


def table_2(groups: Sequence[Group]) -> Section:
    """Layer weighting."""
    columns = {"top": "top layer only", "1": "λ = 1", "0.1": "λ = 0.1", "0.01": "λ = 0.01",
               "0.001": "λ = 0.001", "0": "λ = 0"}  # fmt: skip
    families = find_families(groups, ("input.layers", "input.l2"), _weighting)
    blocks: list[Block] = []
    if families:
        blocks = [
            Paragraph(
                "A large λ keeps the layers' weights equal, a small one lets the task choose; the "
                f"top layer alone is what TagLM read. {ALIKE}"
            ),
            _table("Table 2. Layers and their weights.", families, columns, paper.TABLE_2, groups),
            *(claim for family in families for claim in _weight_claims(family, groups)),
        ]
    gaps = _gaps(families, ["top", "1", "0.1", "0.01", "0.001"], columns, groups, "λ or layers")
    return Section(
        "layers",
        "Table 2: how layers are weighed",
        "All layers are better than the top one, and weights that the task learns (small λ) are "
        "better than equal ones; named entities do not care.",
        [*blocks, *gaps],
    )


def table_3(groups: Sequence[Group]) -> Section:
    """Placement."""
    families = find_families(groups, ("input.place",), lambda g: str(g.settings["input.place"]))
    blocks: list[Block] = []
    if families:
        blocks = [
            Paragraph(
                "ELMo beside the word vectors (input), beside what the task's encoder makes of "
                f"them (output), or both. {ALIKE}"
            ),
            _table("Table 3. Where ELMo is added.", families, PLACES, paper.TABLE_3, groups),
            *(claim for family in families for claim in _place_claims(family, groups)),
        ]
    gaps = _gaps(families, [*PLACES], PLACES, groups, "place")
    return Section(
        "places",
        "Table 3: where ELMo is added",
        "Both input and output is best for questions and entailment, input alone for semantic "
        "roles.",
        [*blocks, *gaps],
    )


def find_families(
    groups: Sequence[Group], keys: Sequence[str], variant: Callable[[Group], str]
) -> list[Family]:
    """For each data set and model the family that is shown, where there is one."""
    found = []
    for dataset in datasets(groups):
        baseline = select(groups, dataset, "")
        for model in models(groups):
            families: dict[str, dict[str, Group]] = {}
            for group in select(groups, dataset, model):
                rest = {k: v for k, v in group.settings.items() if k not in keys}
                own = families.setdefault(json.dumps(rest, sort_keys=True), {})
                own.setdefault(variant(group), group)  # the best comes first
            largest = max(families.values(), key=len, default={})
            if len(largest) > 1:
                found.append(Family(dataset, model, _alike(baseline, largest), largest))
    return found


def _alike(baselines: Sequence[Group], variants: Mapping[str, Group]) -> Group | None:
    """Of baselines, the best first, the one with the recipe of the variants, or the best."""
    recipe = next(iter(variants.values())).settings
    for group in baselines:
        has_seeds = len(group.runs) >= min(ENOUGH_SEEDS, len(baselines[0].runs))
        if has_seeds and all(recipe.get(key) == value for key, value in group.settings.items()):
            return group
    return baselines[0] if baselines else None


def _weighting(group: Group) -> str:
    settings = group.settings
    return "top" if settings["input.layers"] == "top" else f"{settings['input.l2']:g}"


def _table(
    caption: str,
    families: Sequence[Family],
    columns: Mapping[str, str],
    others: Mapping[str, Mapping[str, str]],
    groups: Sequence[Group],
) -> Table:
    seen = {name for family in families for name in family.variants}
    shown = [name for name in columns if name in seen or name != "0"]
    rows: list[list[Text | None]] = []
    for family in families:
        name: str | None = f"{title(family.dataset, groups)}{_place(family)}"
        for part, label in PARTS:
            cells: list[Text] = [
                mean_score(family.variants[n], part) if n in family.variants else NOTHING
                for n in shown
            ]
            before: Text = mean_score(family.baseline, part) if family.baseline else NOTHING
            which = f"{model_name(family.elmo)}, {label}"
            rows.append([name, which, _seeds(family), before, *cells])
            name = None
        theirs = others.get(family.dataset.task)
        if theirs:
            before = published(theirs["baseline"]) if "baseline" in theirs else NOTHING
            cells = [published(theirs[n]) if n in theirs else NOTHING for n in shown]
            rows.append([None, "the paper, development", NOTHING, before, *cells])
    head = ["task", "model, part", "seeds", "baseline", *(columns[n] for n in shown)]
    return Table(caption, head, rows, 2)


def _place(family: Family) -> str:
    """Where ELMo is added, if that is one place and not the usual one."""
    places = {str(group.settings.get("input.place", "input")) for group in family.variants.values()}
    is_told = len(places) == 1 and places != {"input"}
    return f", ELMo at {PLACES[places.pop()]}" if is_told else ""


def _seeds(family: Family) -> list[Span]:
    """How many, least and most."""
    ordered = sorted(family.variants.values(), key=lambda group: len(group.runs))
    ends = {len(group.runs): group for group in (ordered[0], ordered[-1])}
    return join((number(count, group.runs, "d") for count, group in ends.items()), "–")


def _weight_claims(family: Family, groups: Sequence[Group]) -> Iterator[Claim]:
    mixes = {name: group for name, group in family.variants.items() if name != "top"}
    if "top" in family.variants and mixes:
        best = max(mixes, key=lambda name: mixes[name].mean("dev"))
        yield _claim(
            family, groups, f"the mix (λ = {best}) at least as good as the top layer alone",
            mixes[best], family.variants["top"],
        )  # fmt: skip
    if {"0.001", "1"} <= mixes.keys() and family.dataset.task != "ner":
        yield _claim(
            family, groups, "λ = 0.001 at least as good as λ = 1", mixes["0.001"], mixes["1"]
        )


def _place_claims(family: Family, groups: Sequence[Group]) -> Iterator[Claim]:
    places = family.variants
    is_paper = family.dataset.task in paper.TABLE_3
    if {"input", "both"} <= places.keys():
        what, first, rest = "both places at least as good as one", "both", ["input", "output"]
        if family.dataset.task == "srl":
            what, first, rest = "input alone at least as good as both", "input", ["both"]
        others = [places[place] for place in rest if place in places]
        second = max(others, key=lambda group: group.mean("dev"))
        yield _claim(family, groups, what, places[first], second, is_paper)


def _claim(
    family: Family,
    groups: Sequence[Group],
    what: str,
    first: Group,
    second: Group,
    is_paper: bool = True,
) -> Claim:
    return Claim(
        f"{title(family.dataset, groups)}, {family.elmo}, development: {what}",
        first.mean("dev") >= second.mean("dev"),
        against(first, second, "dev"),
        is_paper,
    )


def _gaps(
    families: Sequence[Family],
    wanted: Sequence[str],
    names: Mapping[str, str],
    groups: Sequence[Group],
    what: str,
) -> Iterator[Missing]:
    """Of the tasks that are wanted here, what was not run with the first model."""
    own = {f.dataset: f for f in families if f.elmo == MODELS[0]}
    none = [task for task in EXPECTED if task not in {dataset.task for dataset in own}]
    if none:
        yield Missing(f"No runs of {MODELS[0]} that differ in {what} alone on {listed(none)}.")
    for dataset, family in own.items():
        lost = [names[name] for name in wanted if name not in family.variants]
        if lost:
            yield Missing(f"{title(dataset, groups)}: not run with {listed(lost)}.")
    if families and not any(family.elmo == MODELS[1] for family in families):
        yield Missing(f"No such runs of {MODELS[1]}.")
