"""A report as a person reads it: plain text in columns, which Markdown takes as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def as_text(report: Mapping[str, Any]) -> str:
    """All tables of a report."""
    return "\n".join(_blocks(report))


def _blocks(report: Mapping[str, Any]) -> Iterator[str]:
    machine, model, text, work = (report[k] for k in ("machine", "model", "text", "work"))
    yield (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads; "
        f"other programs took {machine['cores_taken_by_others']} cores meanwhile\n"
        f"relmo {machine['relmo']}, torch {machine['torch']}, Python {machine['python']}\n"
        f"model {model['name'] or 'unnamed'}: {model['lstm']}, {model['parameters'] / 1e6:.1f} M "
        f"parameters; {work['lstm_mflop_per_token']} MFLOP per token, "
        f"{work['cnn_mflop_per_new_word']} per new word\n"
        f"text {text['source']}: {text['sentences']:,} sentences of {text['tokens_per_sentence']} "
        f"tokens, {text['distinct_words']:,} distinct words\n"
    )
    rates = report["rates"]
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
    yield _table(
        ["case", "who", "memo", "ms per call", "tokens/s", "lowest-highest", "of floor"],
        [_speed_row(row) for row in sorted(report["speed"], key=lambda row: _case(report, row))],
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


def _case(report: Mapping[str, Any], row: Mapping[str, Any]) -> int:
    names = [each["case"] for each in report["speed"]]
    return names.index(row["case"])


def _speed_row(row: Mapping[str, Any]) -> list[object]:
    low, high = row["lowest_and_highest"]
    fraction = row.get("fraction_of_floor")
    return [
        row["case"],
        row["who"],
        row["memo"],
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
    versions = ", ".join(f"{key} {value}" for key, value in facts["versions"].items())
    difference = f"{facts['max_difference']:.1e}"
    return f"{name} ({versions}): vectors differ by {difference} at most ({facts['compared_in']})\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    cells = [list(map(str, row)) for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in cells]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]]) + "\n"
