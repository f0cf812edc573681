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
from relmo.train.run import versions


def describe_machine() -> dict[str, Any]:
    """CPU, GPU if there is one, threads and versions; nothing that names the host."""
    cpu = platform.processor() or platform.machine()
    facts = Path("/proc/cpuinfo")
    for line in facts.read_text(errors="replace").splitlines() if facts.is_file() else ():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "bfloat16_instructions": has_bfloat16(),
        "system": platform.system(),
        **versions(),
        **({"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}),
    }


def write_result(path: Path, report: Mapping[str, Any], command: str) -> None:
    """Keep a report with the command that made it: as JSON, or as Markdown for any other suffix."""
    if path.suffix == ".json":
        write_json(path, {"command": command, **report})
        return
    with replacing(path) as temporary:
        temporary.write_text(f"    {command}\n\n{as_text(report)}", encoding="utf-8")


def as_text(report: Mapping[str, Any]) -> str:
    """All tables of a report."""
    return "\n".join(_suite_blocks(report) if "suite" in report else _embedding_blocks(report))


def _suite_blocks(report: Mapping[str, Any]) -> Iterator[str]:
    gpu = f"; {report['machine']['gpu']}" if "gpu" in report["machine"] else ""
    yield f"{_machine_lines(report)}{report['about']}{gpu}\n"
    rows = [
        [f"{v:,}" if isinstance(v, int | float) else v for v in row.values()]
        for row in report["rows"]
    ]
    yield _table([name.replace("_", " ") for name in report["rows"][0]], rows)


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
    yield f"Machine (memory {rates['memory_gb_per_second']} GB/s)\n"
    rows = [
        [precision, f"{flops:,}", rates["weights_gb_per_second"][precision]]
        for precision, flops in rates["gflop_per_second"].items()
    ]
    yield _table(["precision", "GFLOP/s", "weights GB/s"], rows)
    parts = report["parts_milliseconds"]
    yield "Parts of a batch of 32, ms\n"
    names = list(next(iter(parts.values())))
    yield _table(["part", *parts], [[name, *(parts[p][name] for p in parts)] for name in names])
    yield "Speed (medians)\n"
    cases = list(dict.fromkeys(row["case"] for row in report["speed"]))
    yield _table(
        ["case", "who", "memo", "ms per call", "tokens/s", "lowest-highest", "of floor"],
        [_speed_row(row) for case in cases for row in report["speed"] if row["case"] == case],
    )
    yield "Fresh process\n"
    yield _table(["who", "load s", "first sentence s", "peak MB"], list(_fresh_rows(report)))
    for name, facts in report["peers"].items():
        yield _peer_line(name, facts)
    if report["ratios"]:
        yield "Times faster, same sentences in the same rounds (medians)\n"
        keys = ("case", "who", "memo", "peer", "times_faster")
        yield _table(
            ["case", "who", "memo", "than", "times"],
            [[row[key] for key in keys] for row in report["ratios"]],
        )


def _speed_row(row: Mapping[str, Any]) -> list[object]:
    low, high = row["lowest_and_highest"]
    fraction = row.get("fraction_of_floor")
    return [
        *(row[key] for key in ("case", "who", "memo")),
        f"{row['milliseconds_per_call']:,.1f}",
        f"{row['tokens_per_second']:,.0f}",
        f"{low:,.0f}-{high:,.0f}",
        "" if fraction is None else f"{fraction:.0%}",
    ]


def _fresh_rows(report: Mapping[str, Any]) -> Iterator[list[object]]:
    for precision, facts in report["fresh"].items():
        first = facts["first_sentence_seconds"]
        yield [f"relmo {precision}", facts["load_seconds"], first, f"{facts['peak_mb']:,}"]
    for name, facts in report["peers"].items():
        if "missing" not in facts:
            yield [name, facts["load_seconds"], "", f"{facts['peak_mb']:,}"]


def _peer_line(name: str, facts: Mapping[str, Any]) -> str:
    if "missing" in facts:
        return f"{name} was not measured: {facts['missing']}\n"
    used = ", ".join(f"{key} {value}" for key, value in facts["versions"].items())
    difference = f"{facts['max_difference']:.1e}"
    return f"{name} ({used}): vectors differ by {difference} at most ({facts['compared_in']})\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    cells = [list(map(str, row)) for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]  # of each column
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in cells]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]]) + "\n"
