"""The model card, README.md of a released task model: made from its files and a few given facts.

The cards of ELMos are made by `weights/model_card.py`, whose tables these share.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relmo.config import Settings
from relmo.progress import readable
from relmo.weights.find import PACKAGES
from relmo.weights.model_card import front_matter, table, toml_block, training_rows

PIPELINES = {
    **dict.fromkeys(("ner", "pos", "srl"), "token-classification"),
    **dict.fromkeys(("classify", "multilabel", "snli", "sst"), "text-classification"),
    "squad": "question-answering",
    "encoder": "sentence-similarity",
}
"""Task -> what the Hugging Face hub calls it, where it has a name."""
PERCENTAGES = ("accuracy", "f1", "precision", "recall", "perfect", "exact_match", "mrr")
"""How the names of scores in percent end."""
ROUNDED = {
    "int8": "matrices in 8 bits with a scale per row",
    "float16": "matrices in float16",
    "float32": "float32",
}


@dataclass(frozen=True, kw_only=True)
class DataSource(Settings):
    """A data set that a model was trained on, and its terms."""

    name: str
    url: str = ""
    terms: str = ""
    """Of its licence: "CC BY-SA 4.0"."""
    terms_url: str = ""


@dataclass(frozen=True, kw_only=True)
class About(Settings):
    """What is said of a model when it is released; its run knows the rest."""

    name: str
    """By which it is loaded: "relmo-en-pos"."""
    summary: str = ""
    """What it does, in a sentence."""
    language: str = ""
    """Its code, such as "en"."""
    licence: str = ""
    """Of the model's files: "CC-BY-SA-4.0"."""
    sources: tuple[DataSource, ...] = ()
    example: tuple[str, ...] = ()
    """The texts of one input, whose results the card shows."""
    wrong: str = ""
    """What it gets wrong, in Markdown."""
    install: str = ""
    """How it is installed, in Markdown."""


def task_model_card(about: About, facts: Mapping[str, Any], example: object = None) -> str:
    """The text of the card.

    Args:
        about: what the caller says of the model.
        facts: what `describe_task` finds in the model's folder.
        example: the results of the example in `about`.
    """
    language = [f"language: {about.language}"] if about.language else []
    pipeline = PIPELINES.get(facts["task"], "")
    parts = [
        front_matter(about.licence, language, pipeline, ("elmo", facts["task"])),
        f"# {about.name}",
        about.summary,
        _code(about, example),
        about.install,
        *_needs(facts["elmo"]),
        "## Scores",
        *_scores(facts),
        "## Data",
        *_data(about, facts),
        *(["## What it gets wrong", about.wrong.strip()] if about.wrong else []),
        "## Size",
        *_sizes(facts),
        "## Training",
        table(("", ""), training_rows(facts["training"])),
        toml_block(facts["training"]["recipe"]),
        "run.json contains the full record.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _code(about: About, example: object) -> str:
    """How the model is loaded and called, and what the call returns."""
    last = about.name.rpartition("-")[2]
    variable = last if last.isidentifier() else "model"
    lines = ["import relmo", "", f'{variable} = relmo.load("{about.name}")']
    if about.example:
        texts = (json.dumps(text, ensure_ascii=False) for text in about.example)
        lines.append(f"{variable}({', '.join(texts)})")
        lines += [f"# {line}" for line in _shown(example)]
    return "\n".join(["```python", *lines, "```"])


def _shown(result: object) -> list[str]:
    """A result as Python shows it, scores to two digits, each item of a list on its line.

    Of a vector it is the first numbers.
    """
    lines = [repr(result)]
    if isinstance(result, list) and result:
        lines = [f" {each!r}," for each in result]
        lines[0], lines[-1] = f"[{lines[0][1:]}", f"{lines[-1][:-1]}]"
        if isinstance(result[0], float):
            lines = [f"{''.join(lines[:3])} …]"]
    return [re.sub(r"\d\.\d{3,}(e-\d+)?", lambda n: f"{float(n[0]):.2f}", line) for line in lines]


def _needs(elmo: Mapping[str, Any] | None) -> list[str]:
    if elmo is None:
        return ["It reads without an ELMo model."]
    needs = (
        f"It reads with the ELMo model {elmo['name']} (fingerprint `{elmo['fingerprint'][:12]}`), "
        f"which is not part of it"
    )
    place = PACKAGES.get(elmo["name"])
    return [f"{needs}: `pip install {place}` in a clone of relmo." if place else f"{needs}."]


# ── scores ──────────────────────────────────────────────────────────────────────────────────────


def score_text(name: str, value: float) -> str:
    """The value of a score for people: `81.25 %`."""
    return f"{value:.2f} %" if name.endswith(PERCENTAGES) else f"{value:,.4g}"


def _scores(facts: Mapping[str, Any]) -> list[str]:
    """Scores of the run, of the weights as they are stored, and of runs with other seeds."""
    results, stored, runs = facts["results"], facts["stored"], facts["runs"]
    seeds = [run["seed"] for run in runs]
    columns = ["", "this model"]
    columns += [f"as stored ({facts['storage']})"] if stored else []
    columns += [f"mean of {len(runs)} seeds, ± standard deviation"] if runs else []
    rows = []
    for name in results:
        row = [readable(name), score_text(name, results[name])]
        row += [score_text(name, stored[name]) if name in stored else ""] if stored else []
        if runs:
            mean, deviation = facts["mean"].get(name), facts["deviation"].get(name, 0.0)
            row.append("" if mean is None else f"{score_text(name, mean)} ± {deviation:.2g}")
        rows.append(row)
    said = [table(columns, rows)]
    if runs:
        others = ", ".join(map(str, seeds[1:]))
        said.append(
            f"This model is the run with seed {seeds[0]}; seeds of the other runs: {others}."
        )
    if facts["storage"] != "float32" and not stored:
        said.append("Scores are of the trained weights, before they were rounded for storage.")
    return [*said, *_calibration(facts)]


def _calibration(facts: Mapping[str, Any]) -> list[str]:
    """What the scores of results mean."""
    if "temperature" not in facts["calibration"]:
        return []
    text = (
        f"The score of a result is the probability that it is right, calibrated on the dev part "
        f"(temperature {facts['calibration']['temperature']:.2f})."
    )
    found = {**facts["results"], **facts["stored"]}
    if (error := found.get("test_calibration_error")) is not None:
        text += f" On the test part it is off by {100 * error:.1f} points on average."
    return [text]


# ── data and size ───────────────────────────────────────────────────────────────────────────────


def _data(about: About, facts: Mapping[str, Any]) -> list[str]:
    data = facts["data"]
    rows = [(link(each.name, each.url), link(each.terms, each.terms_url)) for each in about.sources]
    counts = ", ".join(f"{data[part]:,} in {part}" for part in ("train", "dev", "test"))
    files = [(each["name"], f"`{each['sha256']}`") for each in data["files"].values()]
    vectors = facts["vectors"]
    labels = f"Labels: {', '.join(facts['labels'])}." if facts["labels"] else ""
    return [
        table(("data", "terms"), rows) if rows else "",
        f"Examples: {counts}. {labels}".strip(),
        table(("file", "sha256"), files),
        f"Static word vectors: {vectors['name']}, sha256 `{vectors['sha256']}`." if vectors else "",
        f"The model is licensed under {about.licence}." if about.licence else "",
    ]


def link(text: str, url: str) -> str:
    """A link in Markdown, or the text alone."""
    return f"[{text}]({url})" if url else text


def _sizes(facts: Mapping[str, Any]) -> Sequence[str]:
    rows = [(part, f"{size / 1e6:,.2f} MB") for part, size in facts["parts"].items()]
    total = sum(facts["parts"].values())
    stored = ROUNDED.get(facts["storage"], facts["storage"])
    return [
        table(("part", "size"), [*rows, ("together", f"{total / 1e6:,.2f} MB")]),
        f"{facts['parameters']:,} parameters, {facts['words']:,} words with a vector of their own; "
        f"stored: {stored}.",
    ]
