"""A report for people: plain text with Markdown tables, and the file that keeps a result."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from relmo.files import replacing, write_json
from relmo.kernels.cpu_products import has_bfloat16
from relmo.training.run import versions


def describe_machine(cores_taken_by_others: float | None) -> dict[str, Any]:
    """CPU, GPU if there is one, threads and versions; nothing that names the host."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text(errors="replace").splitlines() if facts.is_file() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return {
        "cpu": next(names, platform.processor() or platform.machine()),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "bfloat16_instructions": has_bfloat16(),
        "system": platform.system(),
        **versions(),
        **({"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}),
        "cores_taken_by_others": cores_taken_by_others,
    }


def write_result(path: Path, report: Mapping[str, Any], command: str) -> None:
    """Keep a report with the command that made it: as JSON, or as Markdown for any other suffix."""
    if path.suffix == ".json":
        write_json(path, {"command": command, **report}, follow=True)
        return
    with replacing(path, follow=True) as temporary:
        temporary.write_text(f"    {command}\n\n{as_text(report)}", encoding="utf-8")


def as_text(report: Mapping[str, Any]) -> str:
    """All tables of a report."""
    if "suite" not in report:
        return "\n".join(_embedding_blocks(report))
    gpu = f"; {report['machine']['gpu']}" if "gpu" in report["machine"] else ""
    rows = [
        [f"{v:,}" if isinstance(v, int | float) else v for v in row.values()]
        for row in report["rows"]
    ]
    head = [name.replace("_", " ") for name in report["rows"][0]]
    return _table(f"{_machine_lines(report)}{report['about']}{gpu}", head, rows)


def _machine_lines(report: Mapping[str, Any]) -> str:
    machine = report["machine"]
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads; "
        f"other programs took {machine['cores_taken_by_others']} cores meanwhile\n"
        f"relmo {machine['relmo']}, torch {machine['torch']}, Python {machine['python']}\n"
    )


def _embedding_blocks(report: Mapping[str, Any]) -> Iterator[str]:
    model, text, work, rates = (report[k] for k in ("model", "text", "work", "rates"))
    yield (
        f"{_machine_lines(report)}"
        f"model {model['name'] or 'unnamed'}: {model['lstm']}, {model['parameters'] / 1e6:.1f} M "
        f"parameters; {work['lstm_mflop_per_token']} MFLOP per token, "
        f"{work['cnn_mflop_per_new_word']} per new word\n"
        f"text {text['source']}: {text['sentences']:,} sentences of {text['tokens_per_sentence']} "
        f"tokens, {text['distinct_words']:,} distinct words\n"
    )
    rows = [
        [precision, f"{flops:,}", rates["weights_gb_per_second"][precision]]
        for precision, flops in rates["gflop_per_second"].items()
    ]
    title = f"Machine (memory {rates['memory_gb_per_second']} GB/s)"
    yield _table(title, ["precision", "GFLOP/s", "weights GB/s"], rows)
    parts = report["parts_milliseconds"]
    rows = [[name, *(own[name] for own in parts.values())] for name in next(iter(parts.values()))]
    yield _table("Parts of a batch of 32, ms", ["part", *parts], rows)
    cases = list(dict.fromkeys(row["case"] for row in report["speed"]))
    rows = [_speed_row(row) for case in cases for row in report["speed"] if row["case"] == case]
    head = ["case", "who", "memo", "ms per call", "tokens/s", "lowest-highest", "of floor"]
    yield _table("Speed (medians)", head, rows)
    fresh = [(f"relmo {precision}", facts) for precision, facts in report["fresh"].items()]
    fresh += ((name, facts) for name, facts in report["peers"].items() if "missing" not in facts)
    times = ("load_seconds", "first_sentence_seconds")
    rows = [[w, *(facts.get(k, "") for k in times), f"{facts['peak_mb']:,}"] for w, facts in fresh]
    yield _table("Fresh process", ["who", "load s", "first sentence s", "peak MB"], rows)
    for name, facts in report["peers"].items():
        yield _peer_line(name, facts)
    if report["ratios"]:
        keys = ("case", "who", "memo", "peer", "times_faster")
        rows = [[row[key] for key in keys] for row in report["ratios"]]
        title = "Times faster, same sentences in the same rounds (medians)"
        yield _table(title, ["case", "who", "memo", "than", "times"], rows)


def _speed_row(row: Mapping[str, Any]) -> list[object]:
    low, high = row["lowest_and_highest"]
    return [
        *(row[key] for key in ("case", "who", "memo")),
        f"{row['milliseconds_per_call']:,.1f}",
        f"{row['tokens_per_second']:,.0f}",
        f"{low:,.0f}-{high:,.0f}",
        f"{row['fraction_of_floor']:.0%}" if "fraction_of_floor" in row else "",
    ]


def _peer_line(name: str, facts: Mapping[str, Any]) -> str:
    if "missing" in facts:
        return f"{name} was not measured: {facts['missing']}\n"
    used = ", ".join(f"{key} {value}" for key, value in facts["versions"].items())
    difference = f"{facts['max_difference']:.1e}"
    return f"{name} ({used}): vectors differ by {difference} at most ({facts['compared_in']})\n"


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table under its title, with aligned columns."""
    cells = [list(map(str, row)) for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]  # of each column
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in cells]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([title, "", lines[0], rule, *lines[1:], ""])
