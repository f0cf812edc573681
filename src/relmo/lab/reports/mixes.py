"""Figure 2: which layers the tasks chose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from relmo.lab.reports.blocks import (
    Block,
    Claim,
    Figure,
    Missing,
    Paragraph,
    Section,
    Span,
    Table,
    Text,
    join,
    number,
)
from relmo.lab.reports.names import corpus, listed, slug, title
from relmo.lab.reports.plots import heat_map
from relmo.lab.reports.records import MODELS, Group, Run, datasets, main_models, select

PLACES = "input", "output"


@dataclass(frozen=True)
class Mix:
    """What a group of runs learned at a place: means over seeds."""

    group: Group
    weights: list[float]
    gamma: float


def figure_2(groups: Sequence[Group]) -> Section:
    """The section."""
    blocks: list[Block] = []
    for model in main_models(groups):
        found = {place: find_mixes(groups, model, place) for place in PLACES}
        if any(found.values()):
            pictures = {
                f"mix-{place}-{slug(model)}": _picture(model, place, mixes, groups)
                for place, mixes in found.items()
                if mixes
            }
            caption = f"{model}: shares of the layers by task (the stronger, the more), and γ."
            blocks += [Figure(pictures, caption), _table(model, found, groups)]
            blocks += _claims(model, found["input"], groups)
    if blocks:
        blocks.insert(0, Paragraph(
            "Weights after the softmax, means over seeds, of the settings that the development "
            "part chose among those with a mix at that place. Layer 0 knows no context."
        ))  # fmt: skip
    gaps = [
        Missing(f"No learned mix of {model} at the {place}.")
        for model in MODELS
        for place in PLACES
        if not find_mixes(groups, model, place)
    ]
    return Section(
        "mixes",
        "Figure 2: which layers the tasks chose",
        "At the input most tasks favour the first LSTM layer, coreference and questions strongly; "
        "at the output the layers are nearly even.",
        [*blocks, *gaps],
    )


def find_mixes(groups: Sequence[Group], model: str, place: str) -> list[Mix]:
    """The mix of each data set at a place."""
    found = []
    for dataset in datasets(groups):
        own = select(groups, dataset, model, keep=lambda g: all(_weights(r, place) for r in g.runs))
        if own:
            each = [_weights(run, place) for run in own[0].runs]
            weights = [fmean(layer) for layer in zip(*each, strict=True)]
            gammas = [run.record["mixes"][place]["gamma"] for run in own[0].runs]
            found.append(Mix(own[0], weights, fmean(gammas)))
    return found


def _weights(run: Run, place: str) -> list[float]:
    """Of the layers; empty where there is no choice among them."""
    weights = (run.record.get("mixes") or {}).get(place, {}).get("weights", [])
    return [float(weight) for weight in weights] if len(weights) > 1 else []


def _picture(model: str, place: str, mixes: Sequence[Mix], groups: Sequence[Group]) -> str:
    columns = [f"layer {n}" for n in range(len(mixes[0].weights))]
    rows = [(corpus(mix.group.dataset, groups), mix.weights, f"{mix.gamma:.2f}") for mix in mixes]
    each = (f"{name} {', '.join(f'{w:.2f}' for w in shares)}" for name, shares, _ in rows)
    name, heading = f"mix-{place}-{slug(model)}", f"Mix at the {place}, {model}"
    return heat_map(name, heading, f"{'; '.join(each)}.", rows, columns, "γ")


def _table(model: str, found: dict[str, list[Mix]], groups: Sequence[Group]) -> Table:
    num_layers = max(len(mix.weights) for mixes in found.values() for mix in mixes)
    rows: list[list[Text | None]] = []
    for place, mixes in found.items():
        for mix in mixes:
            runs = mix.group.runs
            rows.append([
                title(mix.group.dataset, groups), place,
                join([Span(str(run.seed), run, f"seed {run.seed}") for run in runs], " "),
                *(number(weight, runs, ".3f") for weight in mix.weights),
                *["–"] * (num_layers - len(mix.weights)),
                number(mix.gamma, runs, ".3f"),
            ])  # fmt: skip
    head = ["task", "place", "seeds", *(f"layer {n}" for n in range(num_layers)), "γ"]
    return Table(f"Figure 2 as numbers, {model}.", head, rows, 2)


def _claims(model: str, mixes: Sequence[Mix], groups: Sequence[Group]) -> Iterator[Claim]:
    if not mixes:
        return
    first = [mix for mix in mixes if max(mix.weights) == mix.weights[1]]
    names = [corpus(mix.group.dataset, groups) for mix in first]
    which = f": {listed(names)}" if names else ""
    yield Claim(
        f"{model}: at the input most tasks favour the first LSTM layer",
        2 * len(first) > len(mixes),
        f"{len(first)} of {len(mixes)}{which}",
    )
