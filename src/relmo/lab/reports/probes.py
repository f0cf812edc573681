"""Tables 4 to 7, Word-in-Context and how contextual layers are: what the layers know.

The results of a probe are flat, PART_MEASURE_METHOD: `test_f1_layer_1`,
`senseval2_f1_first_sense`, `test_accuracy_mix` …
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import isnan
from statistics import fmean
from typing import Any, NamedTuple

from relmo.lab.reports import page
from relmo.lab.reports.groups import Records
from relmo.lab.reports.plots import Series, curves, dots
from relmo.lab.reports.records import TEXTS, RunFile, Texts

METHODS, SETS, INTRINSIC = TEXTS["methods"], TEXTS["sets"], TEXTS["intrinsic"]["measures"]
"""Names of methods, of what they are scored on, and of measures of how contextual a layer is."""
PLAIN = "plain_"
"""Prefix of a method that uses the paper's rule, the nearest centroid and nothing else."""
FLAT = re.compile(r"(.+)_(f1|accuracy)_(.+)")
WITHOUT_VECTORS = "most_frequent", "first_sense", "majority"
"""Methods that use no vectors."""


def table_4(records: Records) -> page.Section:
    """Neighbors of a word in a sentence."""
    found = records.of("neighbors")
    asked: dict[tuple[str, str], list[RunFile]] = {}
    for run in found:
        asked.setdefault((str(run.record["word"]), _line(run.record["sentence"])), []).append(run)
    tables = [_neighbors(word, line, asked[word, line]) for word, line in sorted(asked)]
    missing = records.absent("neighbors (`relmo neighbors`)", {run.elmo for run in found})
    return records.section("neighbours", tables, missing)


def _neighbors(word: str, sentence: str, runs: Sequence[RunFile]) -> page.Table:
    """Neighbors of a word in a sentence: by each model and method, and without context."""
    rows: list[page.Row] = []
    for run in runs:
        layer = run.record.get("layer")
        way = "sense vectors" if layer is None else f"layer {layer}"
        label: str | None = f"{run.elmo}, by {way}"
        for near, cosine, position in run.results.get("context", []):
            score = page.number(cosine, run, kind="weak")
            marked = _marked(run, _line(near), int(position))
            rows.append([label, page.text(marked, " ", score)])
            label = None
    for run in {run.elmo: run for run in runs}.values():
        words = [
            page.text(page.Span(str(near), run), " ", page.number(cosine, run, kind="weak"))
            for near, cosine in run.results.get("static", [])
        ]
        rows += [[f"{run.elmo}, without context", page.join(words)]] if words else []
    glove = TEXTS["neighbours"]["published"].get(word)
    rows += [["GloVe, in the paper", page.join(map(page.published, glove))]] if glove else []
    return page.table("neighbors", rows, word=word, sentence=sentence)


def _line(sentence: Any) -> str:  # noqa: ANN401 - a string or a list of words
    return sentence if isinstance(sentence, str) else " ".join(sentence)


def _marked(run: RunFile, sentence: str, position: int) -> list[page.Span]:
    """A sentence with the word at the position in bold, linked to the record."""
    words = sentence.split()
    if not 0 <= position < len(words):
        return [page.Span(sentence, run)]
    before, after = (" ".join(part) for part in (words[:position], words[position + 1 :]))
    word = page.Span(words[position], run, kind="strong")
    return page.text(f"{before} " if before else "", word, f" {after}" if after else "")


class Probe(NamedTuple):
    """A probe of a model: its runs, and their scores by part and method."""

    label: str
    """The model's name, with more details if several probes have the same model."""
    runs: tuple[RunFile, ...]
    scores: Mapping[tuple[str, str], list[float]]
    """One score per run."""

    @property
    def model(self) -> str:
        """Name of the ELMo model."""
        return self.runs[0].elmo

    @property
    def parts(self) -> list[str]:
        """What was scored, the test part first."""
        return _ordered({part for part, _ in self.scores}, SETS)

    def methods(self, part: str | None = None) -> list[str]:
        """Methods, of one part or of all."""
        return _ordered({m for own, m in self.scores if part in (None, own)}, METHODS)

    def value(self, method: str, part: str = "test") -> float:
        """Mean over the runs."""
        return fmean(self.scores[part, method])

    def span(self, method: str, part: str = "test") -> page.Span:
        """The mean, linked to its runs."""
        return page.number(self.value(method, part), self.runs)

    def cell(self, method: str, part: str) -> page.Text:
        """The mean for a table, with lowest and highest if there are several runs."""
        each = self.scores.get((part, method))
        return page.mean_and_range(each, self.runs) if each else page.NOTHING

    def best_layer(self) -> str:
        """The layer that is best on the development part if all were scored there; may be empty."""
        layers = [method for method in self.methods("test") if method.startswith("layer_")]
        part = "dev" if all(("dev", method) in self.scores for method in layers) else "test"
        return max(layers, key=lambda method: self.value(method, part), default="")


def find_probes(records: Records, task: str) -> list[Probe]:
    """One for each model, precision, set of weights and data; runs with other seeds together."""
    found: dict[tuple[str, str, str, str], list[RunFile]] = {}
    for run in records.of(task):
        data = json.dumps(run.record.get("data", {}).get("files", {}), sort_keys=True)
        key = run.elmo, str(run.record.get("precision", "")), run.fingerprint, data
        found.setdefault(key, []).append(run)
    names = [key[0] for key in found]
    probes = []
    for key, runs in sorted(found.items(), key=lambda i: (records.model_order(i[0][0]), i[0])):
        label, results = key[0], set[str].intersection(*({*run.results} for run in runs))
        if names.count(label) > 1:
            data_name = str(runs[0].record.get("data", {}).get("name", ""))
            apart = " ".join(filter(None, [key[1], key[2][:8], data_name]))
            label = f"{label} ({apart}, {runs[0].name})"
        matches = (match for name in sorted(results) if (match := FLAT.fullmatch(name)))
        scores = {(m[1], m[3]): [float(run.results[m[0]]) for run in runs] for m in matches}
        probes.append(Probe(label, tuple(runs), scores))
    return probes


def scores_by_layer(records: Records, name: str) -> page.Section:
    """Scores of a probe: `senses` is Table 5, `tags` Table 6, `wic` Word-in-Context."""
    texts = TEXTS[name]
    probes = find_probes(records, f"probe-{texts['probe']}")
    blocks: list[page.Block] = [_table(texts, probe) for probe in probes]
    if probes and "layers" in texts:
        blocks.insert(0, _figure(records, texts, probes))
        blocks += (claim for probe in probes for claim in _claims(records, probe, texts["probe"]))
    missing = records.absent(texts["record"], {probe.model for probe in probes})
    return records.section(name, blocks, missing, rules=_rules(probes))


def _rules(probes: Sequence[Probe]) -> str:
    """In words, the rules that choose a sense in the rows that are not plain."""
    runs = (run for probe in probes for run in probe.runs)
    found = [r for run in runs for r in run.record.get("settings", {}).get("rules", {}).values()]
    votes = [int(rule["votes"]) for rule in found if rule.get("kind") == "neighbours"]
    ways = []
    if votes:
        span = "–".join(str(count) for count in sorted({min(votes), max(votes)}))
        ways.append(f"a vote of the {span} nearest examples")
    if len(votes) < len(found) or not found:
        ways.append("the nearest centroid, weighted by the sense's frequency")
    return ", or ".join(ways)


def _table(texts: Texts, probe: Probe) -> page.Table:
    """Scores by method and part, followed by what others published."""
    rows: list[page.Row] = [
        [_method(method), *(probe.cell(method, part) for part in probe.parts)]
        for method in probe.methods()
    ]
    layers = texts.get("layers", {}).items()
    bilm = {f"the paper's biLM, layer {n}": {"test": value} for n, value in layers}
    others = texts.get("published", {})
    for name, values in {**bilm, **others}.items():
        remark = "not rerun" if name in others else texts["layers_on"]
        found = (values.get(part) for part in probe.parts)
        rows.append([name, *(page.published(v, remark) if v else page.NOTHING for v in found)])
    head = ["method", *(SETS.get(part, part) for part in probe.parts)]
    return page.Table(f"{texts['caption']}, {probe.label}.", head, rows)


def _method(name: str) -> str:
    if name.startswith(PLAIN):
        return f"{_method(name.removeprefix(PLAIN))}, plain"
    return str(METHODS.get(name, name.replace("_", " ")))


def _ordered(names: set[str], known: Mapping[str, str]) -> list[str]:
    """Known names in their order, each followed by its plain version, then others."""
    order = {name: n for n, name in enumerate(known)}
    return sorted(names, key=lambda n: (order.get(n.removeprefix(PLAIN), len(order)), len(n), n))


def _figure(records: Records, texts: Texts, probes: Sequence[Probe]) -> page.Figure:
    """Methods of each model on the test part, and the paper's layers."""
    pictures, heading = {}, texts["picture"]
    for probe in probes:
        own = records.mark(probe.model)
        rows = [
            (_method(m), "s0" if m in WITHOUT_VECTORS else own, probe.value(m))
            for m in probe.methods("test")
        ]
        rows += [(f"paper, layer {n}", "paper", float(v)) for n, v in texts["layers"].items()]
        name = f"{probe.runs[0].task.removeprefix('probe-')}-{page.slug(probe.label)}"
        legend = [(own, probe.model), ("s0", "no vectors"), ("paper", "the paper")]
        pictures[name] = dots(name, f"{heading}, {probe.label}", rows, legend)
    return page.Figure(pictures, f"{heading}, by method; the scale does not start at zero.")


def _claims(records: Records, probe: Probe, name: str) -> Iterator[page.Claim]:
    """What the paper says about layers, and whether the study's target is reached."""
    upper, lower = (2, 1) if name == "wsd" else (1, 2)
    for rule, words in (("", ""), (PLAIN, " by the nearest centroid")):
        keys = f"{rule}layer_{upper}", f"{rule}layer_{lower}"
        if all(("test", key) in probe.scores for key in keys):
            yield page.Claim(
                f"{name.upper()}, {probe.label}: layer {upper} above layer {lower}{words}",
                probe.value(keys[0]) > probe.value(keys[1]),
                page.text(probe.span(keys[0]), " against ", probe.span(keys[1])),
            )
    best, target = probe.best_layer(), records.study.targets.get(name)
    floor = next((m for m in WITHOUT_VECTORS if ("test", m) in probe.scores), "")
    if not best or target is None or (name == "wsd" and not floor):
        return
    layer, figures = best.removeprefix("layer_"), [probe.span(best)]
    what = f"best single layer ({layer}) at least {target:g} %"
    if name == "wsd":
        sense = f"{METHODS[floor].removesuffix(' sense')} sense"
        what = f"best layer ({layer}) at least {target:g} points above the {sense}"
        figures = page.text(probe.span(best), " against ", probe.span(floor))
        target += probe.value(floor)
    what = f"{name.upper()}, {probe.label}: {what}"
    yield page.Claim(what, probe.value(best) >= target, figures, is_paper=False)


def intrinsic(records: Records) -> page.Section:
    """How contextual each layer is."""
    found = records.of("probe-intrinsic")
    blocks: list[page.Block] = [_intrinsic_table(run) for run in found]
    if found:
        pictures = _intrinsic_pictures(records, found)
        blocks.insert(0, page.Figure(pictures, "How contextual each layer is."))
        blocks += (claim for run in found for claim in _intrinsic_claims(run))
    missing = records.absent("how contextual the layers are", {run.elmo for run in found})
    return records.section("intrinsic", blocks, missing)


def _by_layer(run: RunFile, measure: str) -> dict[int, float]:
    pattern = re.compile(rf"{measure}_layer_(\d+)")
    matches = ((pattern.fullmatch(name), value) for name, value in run.results.items())
    return dict(sorted((int(match[1]), float(value)) for match, value in matches if match))


def _intrinsic_pictures(records: Records, found: Sequence[RunFile]) -> dict[str, str]:
    pictures = {}
    for measure, label in INTRINSIC.items():
        lines = {run: line for run in found if (line := _by_layer(run, measure))}
        series = [
            Series(run.elmo, records.mark(run.elmo), [(n, v, v, v) for n, v in line.items()])
            for run, line in lines.items()
        ]
        each = (f"{s.label} {', '.join(f'{y:.2f}' for _, y, _, _ in s.points)}" for s in series)
        ticks = [(float(n), f"layer {n}") for n in sorted({*chain(*lines.values())})]
        if ticks:
            name, words = f"intrinsic-{page.slug(measure)}", f"By layer: {'; '.join(each)}."
            pictures[name] = curves(name, label.capitalize(), words, series, "", ticks, digits=1)
    return pictures


def _intrinsic_table(run: RunFile) -> page.Table:
    found = {measure: _by_layer(run, measure) for measure in INTRINSIC}
    numbers = sorted({n for line in found.values() for n in line})
    rows: list[page.Row] = []
    for measure, line in found.items():
        cells = (page.number(line[n], run, ".3f") if n in line else page.NOTHING for n in numbers)
        rows += [[INTRINSIC[measure], *cells]] if line else []
    head = ["measure", *(f"layer {n}" for n in numbers)]
    return page.Table(f"How contextual each layer is, {run.elmo}.", head, rows)


def _intrinsic_claims(run: RunFile) -> Iterator[page.Claim]:
    """Self-similarity, less what chance gives."""
    own, chance = _by_layer(run, "self_similarity"), _by_layer(run, "anisotropy")
    if {1, 2} <= own.keys() & chance.keys():
        lower, upper = (page.number(own[n] - chance[n], run, ".3f") for n in (1, 2))
        yield page.Claim(
            f"{run.elmo}: layer 2 more contextual than layer 1 (self-similarity beyond chance)",
            own[2] - chance[2] < own[1] - chance[1],
            page.text(upper, " against ", lower),
            is_paper=False,
        )


def table_7(records: Records) -> page.Section:
    """Perplexity before and after tuning on a task's text."""
    found = records.of("tuned-perplexity")
    rows: list[page.Row] = []
    claims = []
    for run in found:
        texts = sorted(n.removesuffix("_before") for n in run.results if n.endswith("_before"))
        for text in (text for text in texts if f"{text}_after" in run.results):
            name = records.study.texts.get(text, text.replace("_", " "))
            values = [float(run.results[f"{text}_{when}"]) for when in ("before", "after")]
            before, after = (page.number(value, run) for value in values)
            rate = float(run.results.get(f"{text}_unknown_rate", "nan"))
            unknown = page.text(page.number(100 * rate, run, ".1f"), " %")
            theirs = TEXTS["perplexity"]["published"].get(text, ("–", "–"))
            rows.append([
                name, run.elmo, before, after, page.NOTHING if isnan(rate) else unknown,
                *map(page.published, theirs),
            ])  # fmt: skip
            what = f"{name}, {run.elmo}: lower perplexity after tuning"
            figures = page.text(after, " against ", before)
            claims.append(page.Claim(what, values[1] < values[0], figures))
    blocks: list[page.Block] = [page.table("perplexity", rows), *claims] if rows else []
    missing = records.absent("perplexity after tuning", {run.elmo for run in found})
    return records.section("perplexity", blocks, missing)
