"""relmo predict: text in, a trained task's answers out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from relmo.cli.evaluate import ElmoName, Run, check_file
from relmo.cli.options import Precision

File = Annotated[str, typer.Argument(metavar="FILE|-", help="Text, as the task reads it.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per answer.")]
TOGETHER = 256
"""Answers that are computed together; who types has each at once."""


def predict(
    run: Run,
    file: File = "-",
    elmo: ElmoName = None,
    precision: Precision = "float32",
    as_json: AsJson = False,
) -> None:
    """Let a trained task's model answer for plain text, line by line as the task reads it."""
    from relmo.tasks.run import load_task

    lines = _lines(file)
    task = load_task(run, elmo=elmo, precision=precision)  # type: ignore[arg-type]
    examples = iter(task.read_text(lines))
    together = 1 if file == "-" and sys.stdin.isatty() else TOGETHER
    while part := list(islice(examples, together)):
        for example, answer in zip(part, task.predict(part), strict=True):
            if as_json:
                typer.echo(json.dumps(task.describe(example, answer), ensure_ascii=False))
            else:
                typer.echo(task.render(example, answer))


def _lines(file: str) -> Iterator[str]:
    from relmo.tasks.data_files import decoded_lines, numbered_lines

    if file == "-":
        return (line for _, line in decoded_lines(sys.stdin.buffer, "standard input"))
    check_file(Path(file), "- reads standard input")
    return (line for _, line in numbered_lines(Path(file)))  # packed files, too
