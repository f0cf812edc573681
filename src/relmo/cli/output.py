"""How commands print: results on standard output, notes on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import typer


def say(values: Mapping[str, Any], as_json: bool) -> None:
    """Print a result: one JSON object for a pipe, or aligned `name  value` lines for a person."""
    if as_json:
        typer.echo(json.dumps(values, ensure_ascii=False))
        return
    width = max(map(len, values), default=0)
    for name, value in values.items():
        typer.echo(f"{name:<{width}}  {_readable(value)}")


def note(text: str) -> None:
    """Tell the person something that is not the result."""
    if sys.stderr is not None:
        print(f"relmo: {text}", file=sys.stderr)  # noqa: T201 - this is the place that prints


def say_line(values: Mapping[str, Any]) -> None:
    """One line on standard error about a run: what a person wants to follow."""
    shown = {k: v for k, v in values.items() if k not in ("loss", "rate")}
    parts = [f"{k} {v:,.4g}" if isinstance(v, float) else f"{k} {v:,}" for k, v in shown.items()]
    print("  ".join(parts), file=sys.stderr, flush=True)  # noqa: T201 - progress for a person


def _readable(value: Any) -> str:  # noqa: ANN401 - any JSON
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{round(value, 4):,}"  # a person needs no more; JSON has all digits
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
