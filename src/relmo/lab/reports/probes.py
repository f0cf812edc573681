"""Tables 5 and 6, and Word-in-Context: what the layers know.

A probe's results are flat: `test_f1_layer_1`, `senseval2_f1_first_sense`, `test_accuracy_mix` …:
the set that was scored, the measure, the method.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from relmo.lab.reports import paper
from relmo.lab.reports.blocks import (
    NOTHING,
    Block,
    Claim,
    Figure,
    Missing,
    Paragraph,
    Section,
    Span,
    Table,
    Text,
    extremes,
    not_rerun,
    number,
    published,
    versus,
)
from relmo.lab.reports.names import mark, slug
from relmo.lab.reports.plots import Dot, dots
from relmo.lab.reports.records import MODELS, Run, model_order

METHODS = {
    "most_frequent": "most frequent", "first_sense": "first sense", "majority": "majority",
    "static": "static vectors", "layer_0": "layer 0", "layer_1": "layer 1", "layer_2": "layer 2",
    "mean": "mean of layers", "mix": "learned mix",
}  # fmt: skip
PLAIN = "plain_"
"""Begins the name of a reading by the paper's rule, the nearest centroid and nothing else."""
SETS = {
    "test": "test", "senseval2": "Senseval-2", "senseval3": "Senseval-3",
    "semeval2007": "SemEval-2007", "dev": "development",
}  # fmt: skip
FLAT = re.compile(r"(.+?)_(f1|accuracy)_(.+)")
FLOORS = "most_frequent", "first_sense", "majority"
"""Methods that read no vectors."""


@dataclass(frozen=True)
class Probe:
    """A probe of a model: the runs it was made by, and means over them by set and method."""

    model: str
    label: str
    """The model's name, and more where that is not enough."""
    runs: tuple[Run, ...]
    values: Mapping[tuple[str, str], float]
    every: Mapping[tuple[str, str], list[float]]
    """The same of each run."""

    def cell(self, part: str, method: str) -> Text:
        """A number of it, with lowest and highest where there are several runs."""
        each = self.every.get((part, method))
        if each is None:
            return NOTHING
        if not each[1:]:
            return [self.span(part, method)]
        spread = extremes(each, self.runs, ".1f", "weak")
        return [self.span(part, method), Span(" "), *spread]

    def span(self, part: str, method: str) -> Span:
        """A number of it."""
        return number(self.values[part, method], self.runs)


def table_5(runs: Sequence[Run]) -> Section:
    """Word senses."""
    probes = find_probes(runs, "probe-wsd")
    blocks: list[Block] = []
    if probes:
        blocks = [
            Paragraph(
                "F1 of telling a word's sense by its vectors in SemCor, with the first sense for "
                "words that SemCor does not hold. Rows called plain are the paper's rule, the "
                "sense with the nearest centroid, and compare with its figures. The others have "
                "the rule that held-out documents of SemCor chose for that row: "
                f"{_rules(probes)}. “Test” is the sets together; the paper's figures are on five, "
                "these three and two more. “First sense” is WordNet's, as we count it; below it "
                "as published."
            ),
            _picture("wsd", "Word senses, F1", probes, paper.WSD_LAYERS),
            *(_table("Table 5. Word senses", p, _published_senses(p)) for p in probes),
            *(claim for probe in probes for claim in _sense_claims(probe)),
        ]
    return Section(
        "senses",
        "Table 5: word senses by layer",
        "The second layer knows more of word senses than the first, and comes near to systems made "
        "for that.",
        [*blocks, *_missing(probes, "word senses (`relmo probe wsd`)")],
    )


def _rules(probes: Sequence[Probe]) -> str:
    """In words, the rules by which senses are told in the rows that are not plain."""
    found = [
        rule
        for probe in probes
        for run in probe.runs
        for rule in run.record.get("settings", {}).get("rules", {}).values()
    ]
    votes = [int(rule["votes"]) for rule in found if rule.get("kind") == "neighbours"]
    ways = []
    if votes:
        span = "–".join(str(count) for count in sorted({min(votes), max(votes)}))
        ways.append(f"a vote of the {span} nearest examples")
    if len(votes) < len(found) or not found:
        ways.append("the nearest centroid, the sense's frequency weighed in")
    return ", or ".join(ways)


def table_6(runs: Sequence[Run]) -> Section:
    """Parts of speech."""
    probes = find_probes(runs, "probe-pos")
    blocks: list[Block] = []
    if probes:
        blocks = [
            Paragraph(
                "Accuracy of a linear classifier on one layer. Ours is of universal tags, in our "
                "records those of UD English EWT, the paper's of the Penn Treebank: orderings "
                "compare, figures do not."
            ),
            _picture("pos", "Parts of speech, accuracy", probes, paper.POS_LAYERS),
            *(_table("Table 6. Parts of speech", p, _published_tags(p)) for p in probes),
            *(claim for probe in probes for claim in _tag_claims(probe)),
        ]
    return Section(
        "tags",
        "Table 6: parts of speech by layer",
        "The first layer knows more of parts of speech than the second.",
        [*blocks, *_missing(probes, "parts of speech (`relmo probe pos`)")],
    )


def word_in_context(runs: Sequence[Run]) -> Section:
    """The same word twice: the same meaning?"""
    probes = find_probes(runs, "probe-wic")
    blocks: list[Block] = []
    if probes:
        blocks = [
            Paragraph(
                "Accuracy of saying whether a word means the same in two sentences, by a bound on "
                "the cosine of its two vectors, chosen on the training part; chance is 50 %. Sense "
                "vectors are what both language models expect at a place beside the layers there."
            ),
            *(_table("Word-in-Context", probe, []) for probe in probes),
        ]
    return Section(
        "wic",
        "Word-in-Context",
        "Not in the paper; the data is younger than it.",
        [*blocks, *_missing(probes, "Word-in-Context (`relmo probe wic`)")],
    )


def find_probes(runs: Sequence[Run], task: str) -> list[Probe]:
    """One of each model, precision, set of weights and data; runs of other seeds together."""
    found: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        if run.task == task:
            mark = str((run.record.get("elmo") or {}).get("fingerprint", ""))
            data = json.dumps(run.record.get("data", {}).get("files", {}), sort_keys=True)
            key = run.elmo, str(run.record.get("precision", "")), mark, data
            found.setdefault(key, []).append(run)
    names = [key[0] for key in found]
    return [
        _probe(_label(own[0]) if names.count(key[0]) > 1 else key[0], own)
        for key, own in sorted(found.items(), key=lambda item: (model_order(item[0][0]), item[0]))
    ]


def _label(run: Run) -> str:
    """The name of a model of which there are several probes, and what sets this one apart."""
    facts, data = run.record.get("elmo") or {}, run.record.get("data", {})
    apart = run.record.get("precision"), str(facts.get("fingerprint", ""))[:8], data.get("name")
    return f"{run.elmo} ({' '.join(str(each) for each in apart if each)}, {run.path.parent.name})"


def _probe(label: str, runs: Sequence[Run]) -> Probe:
    names = set[str].intersection(*({*run.results} for run in runs))
    every = {
        (match[1], match[3]): [float(run.results[name]) for run in runs]
        for name in sorted(names)
        if (match := FLAT.fullmatch(name))
    }
    values = {key: fmean(each) for key, each in every.items()}
    return Probe(runs[0].elmo, label, tuple(runs), values, every)


def _table(caption: str, probe: Probe, others: Sequence[Sequence[Text | None]]) -> Table:
    parts = _ordered({part for part, _ in probe.values}, SETS)
    methods = _ordered({method for _, method in probe.values}, METHODS)
    rows: list[Sequence[Text | None]] = [
        [
            _method(method),
            *(probe.cell(part, method) for part in parts),
        ]
        for method in methods
    ]
    head = ["method", *(SETS.get(part, part) for part in parts)]
    return Table(f"{caption}, {probe.label}.", head, [*rows, *others])


def _method(name: str) -> str:
    if name.startswith(PLAIN):
        return f"{_method(name.removeprefix(PLAIN))}, plain"
    return METHODS.get(name, name.replace("_", " "))


def _ordered(names: set[str], known: Mapping[str, str]) -> list[str]:
    """Known names in their order, each with its plain reading after it, then others."""
    order = {name: number for number, name in enumerate(known)}
    return sorted(names, key=lambda n: (order.get(n.removeprefix(PLAIN), len(order)), len(n), n))


def _published_senses(probe: Probe) -> list[list[Text | None]]:
    """Rows of others, on our sets where they were scored there."""
    parts = _ordered({part for part, _ in probe.values}, SETS)
    rows: list[list[Text | None]] = [
        [f"the paper's biLM, layer {layer}",
         *([published(value), Span(" five sets", kind="weak")] if part == "test" else NOTHING
           for part in parts)]
        for layer, value in paper.WSD_LAYERS.items()
    ]  # fmt: skip
    for name in [*paper.WSD, *(name for name in paper.WSD_SETS if name not in paper.WSD)]:
        by_set = {**paper.WSD_SETS.get(name, {}), "test": paper.WSD.get(name, "")}
        rows.append(
            [name, *(not_rerun(by_set[part]) if by_set.get(part) else NOTHING for part in parts)]
        )
    return rows


def _published_tags(probe: Probe) -> list[list[Text | None]]:
    parts = _ordered({part for part, _ in probe.values}, SETS)
    ours = {f"the paper's biLM, layer {layer}": v for layer, v in paper.POS_LAYERS.items()}
    rows: list[list[Text | None]] = [
        [name, *([published(value), Span(" PTB", kind="weak")] if part == "test" else NOTHING
                 for part in parts)]
        for name, value in ours.items()
    ]  # fmt: skip
    return rows + [
        [name, *(not_rerun(value) if part == "test" else NOTHING for part in parts)]
        for name, value in paper.POS.items()
    ]


def _picture(name: str, heading: str, probes: Sequence[Probe], layers: Mapping[int, str]) -> Figure:
    """Methods of each model on the test set, and the paper's layers."""
    pictures = {}
    for probe in probes:
        own, methods = mark(probe.model), {m for part, m in probe.values if part == "test"}
        rows = [
            Dot(_method(m), "s0" if m in FLOORS else own, probe.values["test", m])
            for m in _ordered(methods, METHODS)
        ]
        rows += [Dot(f"paper, layer {n}", "paper", float(value)) for n, value in layers.items()]
        words = ", ".join(f"{row.label} {row.value:.1f}" for row in rows)
        key = f"{name}-{slug(probe.label)}"
        legend = [(own, probe.model), ("s0", "no vectors"), ("paper", "the paper")]
        pictures[key] = dots(key, f"{heading}, {probe.label}", f"{words}.", rows, legend)
    return Figure(pictures, f"{heading}, by method; the scale does not begin at zero.")


def _sense_claims(probe: Probe) -> Iterator[Claim]:
    yield from _layer_claim(probe, "WSD", 2, 1)
    yield from _layer_claim(probe, "WSD", 2, 1, PLAIN)
    floor = next((m for m in FLOORS if ("test", m) in probe.values), None)
    best = _best_layer(probe)
    if floor and best:
        above, below = probe.values["test", best], probe.values["test", floor]
        yield Claim(
            f"WSD, {probe.label}: best layer ({best.removeprefix('layer_')}) at least 1.5 points "
            f"above the {METHODS[floor].removesuffix(' sense')} sense",
            above >= below + 1.5,
            versus(probe.span("test", best), probe.span("test", floor)),
            is_paper=False,
        )


def _tag_claims(probe: Probe) -> Iterator[Claim]:
    yield from _layer_claim(probe, "POS", 1, 2)
    best = _best_layer(probe)
    if best:
        yield Claim(
            f"POS, {probe.label}: best single layer ({best.removeprefix('layer_')}) at least 94 %",
            probe.values["test", best] >= 94,
            probe.span("test", best),
            is_paper=False,
        )


def _layer_claim(
    probe: Probe, name: str, upper: int, lower: int, rule: str = ""
) -> Iterator[Claim]:
    keys = ("test", f"{rule}layer_{upper}"), ("test", f"{rule}layer_{lower}")
    if all(key in probe.values for key in keys):
        above, below = (probe.values[key] for key in keys)
        yield Claim(
            f"{name}, {probe.label}: layer {upper} above layer {lower}"
            f"{' by the nearest centroid' if rule else ''}",
            above > below,
            versus(probe.span(*keys[0]), probe.span(*keys[1])),
        )


def _best_layer(probe: Probe) -> str | None:
    """On the development part, where all layers were scored there."""
    layers = [m for part, m in probe.values if part == "test" and m.startswith("layer_")]
    part = "dev" if all(("dev", m) in probe.values for m in layers) else "test"
    return max(layers, key=lambda m: probe.values[part, m], default=None)


def _missing(probes: Sequence[Probe], what: str) -> list[Missing]:
    have = {probe.model for probe in probes}
    return [Missing(f"No probe of {model} for {what}.") for model in MODELS if model not in have]
