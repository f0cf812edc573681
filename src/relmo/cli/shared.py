"""What commands share: options, and printing.

Results go to standard output, notes and progress to standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from relmo.progress import UNPRINTABLE, printable

DEFAULT_MODEL = "relmo-en-small"
"""The model bundled with relmo."""

Model = Annotated[str, typer.Option(help="Model name or folder.")]
Precision = Annotated[
    str, typer.Option(help="float32 (exact), bfloat16, int8 or auto (bfloat16 if supported).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
AsJsonLines = Annotated[bool, typer.Option("--json", help="Print progress as JSON lines.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the recipe; repeatable."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint.")]


def say(values: Mapping[str, Any], as_json: bool) -> None:
    """Print a result as one JSON object, or as aligned `name  value` lines."""
    if as_json:
        text = json.dumps(values, ensure_ascii=False)
        typer.echo(json.dumps(values) if UNPRINTABLE.search(text) else text)
        return
    say_rows([[name, _readable(value)] for name, value in values.items()])


def say_rows(rows: Sequence[Sequence[str]], indent: str = "") -> None:
    """Print rows of cells as aligned columns; the last column is as wide as it needs."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)][:-1]
    for *cells, last in shown:
        padded = [f"{cell:<{width}}  " for cell, width in zip(cells, widths, strict=True)]
        typer.echo(f"{indent}{''.join(padded)}{last}".rstrip())


def say_json(values: Mapping[str, Any]) -> None:
    """Print one line of progress as a JSON object on standard output."""
    typer.echo(json.dumps(values))


def note(text: str) -> None:
    """Print a line on standard error that is not part of the result."""
    if sys.stderr is not None:
        print(printable(f"relmo: {text}"), file=sys.stderr)  # noqa: T201 - the one place that prints


def size_text(num_bytes: float) -> str:
    """A size in bytes for people: 11.4 MB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:,.0f} bytes" if unit == "bytes" else f"{num_bytes:.3g} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:,.3g} TB"


def say_line(values: Mapping[str, Any]) -> None:
    """Print one line of training progress on standard error."""
    shown = {k: v for k, v in values.items() if k not in ("loss", "rate")}
    parts = [f"{k} {v:,.4g}" if isinstance(v, float) else f"{k} {v:,}" for k, v in shown.items()]
    print("  ".join(parts), file=sys.stderr, flush=True)  # noqa: T201 - progress


def _readable(value: Any) -> str:  # noqa: ANN401 - any JSON
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{round(value, 4):,}"  # --json prints all digits
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
