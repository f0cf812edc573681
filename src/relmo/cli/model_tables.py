"""What relmo info, models and convert show to people; --json prints the same facts whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer

from relmo.cli.shared import say_rows, size_text
from relmo.progress import readable
from relmo.tasks.installed import InstalledTask
from relmo.tasks.model_card import score_text
from relmo.weights.find import ConvertReport
from relmo.weights.installed import InstalledModel

TASK_HEADINGS = ("task model", "task", "language", "ELMo", "score", "size", "licence", "from")
HEADINGS = ("model", "language", "layers", "width", "softmax", "size", "licence", "from")


def show_model(facts: Mapping[str, Any], *, verbose: bool) -> None:
    """Show what `describe_model` found: a line per fact; `verbose` adds every setting and file."""
    lstm, tokens = facts["lstm"], facts["tokens"]
    spelled = "filters" in tokens
    rows = [
        ["model", str(facts["model"])],
        ["layers", f"{facts['layers']} of width {facts['width']:,}, the token layer included"],
        ["LSTMs", f"{lstm['num_layers']} per direction, {lstm['cell_width']:,} cells each"],
        ["words", f"spelled, {tokens['scheme']}" if spelled else "from a fixed word list"],
        ["tokenizer", str(facts["tokenizer"])],
        ["parameters", f"{facts['parameters']:,}, softmax not counted"],
        ["softmax", f"{facts['softmax']:,} words" if facts["softmax"] else "none: embeds only"],
        ["licence", str(facts["licence"])],
        ["trained", training_summary(facts["training"])],
        ["fingerprint", facts["fingerprint"]],
    ]
    if "files" in facts:
        rows += [["folder", facts["folder"]], ["files", files_summary(facts)]]
    say_rows(rows)
    if verbose:
        _show_details(facts)


def show_task(facts: Mapping[str, Any], *, verbose: bool) -> None:
    """Show what `describe_task` found, as `show_model` does of ELMos."""
    labels, data = facts["labels"], facts["data"]
    parts = (f"{part} {size_text(size)}" for part, size in facts["parts"].items() if size)
    sizes = (f"{data[part]:,} {part}" for part in ("train", "dev", "test") if part in data)
    rows = [
        ["model", str(facts["model"])],
        ["task", str(facts["task"])],
        ["labels", f"{len(labels)}: {', '.join(labels)}" if labels else "none"],
        ["ELMo", _elmo_text(facts["elmo"])],
        *_score_rows(facts),
        ["data", f"{data['name']}: {', '.join(sizes)} examples" if data else "not recorded"],
        *(["source", _source_text(each)] for each in facts["sources"]),
        ["licence", str(facts["licence"])],
        ["trained", training_summary(facts["training"])],
        ["parameters", f"{facts['parameters']:,}, stored in {facts['storage']}"],
        ["words", f"{facts['words']:,} with a vector of their own"],
        ["size", f"{size_text(sum(facts['parts'].values()))}: {', '.join(parts)}"],
        ["folder", facts["folder"]],
        ["files", files_summary(facts)],
    ]
    say_rows(rows)
    if verbose:
        _show_details(facts)


def _elmo_text(elmo: Mapping[str, Any] | None) -> str:
    if elmo is None:
        return "none needed"
    return f"{elmo['name']}, {elmo['problem'] or 'installed'}"


def _score_rows(facts: Mapping[str, Any]) -> Iterator[list[str]]:
    """A row per score: of the weights as stored, if they were scored, and of other seeds."""
    for name, value in {**facts["results"], **facts["stored"]}.items():
        text = score_text(name, value)
        if name in facts["mean"]:
            mean = score_text(name, facts["mean"][name])
            spread = f"± {facts['deviation'][name]:.2g}"
            text += f" (mean of {len(facts['runs'])} seeds: {mean} {spread})"
        yield [readable(name), text]
    if "temperature" in facts["calibration"]:
        temperature = facts["calibration"]["temperature"]
        yield ["temperature", f"{temperature:.2f}, calibrated on the dev part"]


def _source_text(source: Mapping[str, str]) -> str:
    return ", ".join(source[key] for key in ("name", "url", "terms") if source.get(key))


def _show_details(facts: Mapping[str, Any]) -> None:
    for heading in ("tokens", "lstm", "training"):
        if isinstance(facts.get(heading), Mapping) and facts[heading]:
            typer.echo(f"\n{heading}")
            say_rows(list(_flat(facts[heading])), indent="  ")
    if files := facts.get("files"):
        typer.echo("\nfiles")
        says = {None: "no checksum recorded", True: "matches", False: "DIFFERS"}
        rows = [
            [name, size_text(about["bytes"]), about["sha256"], says[about["matches"]]]
            for name, about in files.items()
        ]
        say_rows(rows, indent="  ")


def training_summary(record: object) -> str:
    """The training record in one line, from what it contains."""
    if not isinstance(record, Mapping):
        return str(record)
    steps, seen = record.get("steps"), record.get("tokens_seen")
    seconds, results = record.get("seconds"), record.get("results")
    measured = results if isinstance(results, Mapping) else {}
    mean, unknown = (measured.get(f"held_out_{name}") for name in ("mean", "unknown_rate"))
    parts = [
        f"began from {record['began_from']}" if record.get("began_from") else "",
        f"{steps:,} steps" if isinstance(steps, int) else "",
        f"{_large(seen)} tokens" if isinstance(seen, int) else "",
        f"{seconds / 60:,.1f} minutes" if isinstance(seconds, int | float) else "",
        f"on {record['hardware']}" if record.get("hardware") else "",
        f"held-out perplexity {mean:.1f}" if isinstance(mean, int | float) else "",
        f"{unknown:.1%} of its words unknown" if isinstance(unknown, int | float) else "",
    ]
    return ", ".join(part for part in parts if part) or "recorded, see --verbose"


def _large(count: int) -> str:
    """A count in a unit that fits: 617 M, 1.5 M, 28 k."""
    if count < 1e6:
        return f"{count / 1e3:,.0f} k" if count >= 1e4 else f"{count:,}"
    return f"{count / 1e6:,.{0 if count >= 1e7 else 1}f} M"


def files_summary(facts: Mapping[str, Any]) -> str:
    """How many files in which format, how large, and whether their checksums match."""
    files: Mapping[str, Mapping[str, Any]] = facts["files"]
    total = size_text(sum(about["bytes"] for about in files.values()))
    return f"{len(files)} ({facts['format']} format), {total}; {checksum_summary(files)}"


def checksum_summary(files: Mapping[str, Mapping[str, Any]]) -> str:
    """Whether the checksums match, and which files differ."""
    if wrong := differing(files):
        return f"checksums DIFFER: {', '.join(wrong)}"
    if not any(about["matches"] for about in files.values()):
        return "no checksums recorded"
    return "checksums match"


def differing(files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Names of the files that do not match their recorded checksum."""
    return [name for name, about in files.items() if about["matches"] is False]


def show_conversion(report: ConvertReport, facts: Mapping[str, Any]) -> None:
    """Show what was converted, and the files written."""
    say_rows(
        [
            ["converted", report.source],
            ["to", report.target],
            ["weights", f"{report.tensors:,} tensors, {report.parameters:,} parameters"],
            ["files", files_summary(facts)],
        ]
    )


def show_models(found: Sequence[InstalledModel]) -> None:
    """Show a table of installed models."""
    rows = [HEADINGS, *(_model_row(model) for model in found)]
    say_rows(rows)


def _model_row(model: InstalledModel) -> list[str]:
    if model.problem is not None:
        return [model.name, *["–"] * (len(HEADINGS) - 2), f"{model.source}: {model.problem}"]
    return [
        model.name,
        model.language or "–",
        str(model.layers),
        f"{model.width:,}",
        "yes" if model.has_softmax else "no",
        size_text(model.bytes) if model.bytes else "–",
        model.licence or "–",
        model.source,
    ]


def show_tasks(found: Sequence[InstalledTask]) -> None:
    """Show a table of installed task models."""
    say_rows([TASK_HEADINGS, *(_task_row(model) for model in found)])


def _task_row(model: InstalledTask) -> list[str]:
    if model.problem is not None:
        return [model.name, *["–"] * (len(TASK_HEADINGS) - 2), f"{model.source}: {model.problem}"]
    score = "–"
    if model.score is not None and model.value is not None:
        score = f"{readable(model.score)} {score_text(model.score, model.value)}"
    return [
        model.name,
        str(model.task),
        model.language or "–",
        "–" if model.elmo is None else model.elmo + ("" if model.has_elmo else " (missing)"),
        score,
        size_text(model.bytes),
        model.licence or "–",
        model.source,
    ]


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[list[str]]:
    """Nested settings as rows: `optimizer.learning_rate  0.0025`."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list) and len(value) > 1 and all(isinstance(v, str) for v in value):
            yield from ([f"{prefix}{name}.{i}", each] for i, each in enumerate(value))
        else:
            yield [f"{prefix}{name}", _text(value)]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value)) if not _is_nested(value) else _pairs(value)
    if isinstance(value, int | float):
        return f"{value:,}"
    return "none" if value is None else str(value)


def _is_nested(value: Sequence[object]) -> bool:
    return any(isinstance(each, list | tuple) for each in value)


def _pairs(value: Sequence[Any]) -> str:
    """Pairs such as the CNN's filters: `1 × 32, 2 × 32`."""
    return ", ".join(" × ".join(map(str, each)) for each in value)
