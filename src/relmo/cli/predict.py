"""relmo predict: apply a trained task model to text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from relmo.cli.evaluate import ElmoName, Run
from relmo.cli.options import Precision, check_file

File = Annotated[str, typer.Argument(metavar="FILE|-", help="Text file, or - for standard input.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print each answer as one JSON object.")]
BATCH_SIZE = 256
"""Examples predicted together; interactive input is answered line by line."""


def predict(
    run: Run,
    file: File = "-",
    elmo: ElmoName = None,
    precision: Precision = "float32",
    as_json: AsJson = False,
) -> None:
    """Apply a trained task model to text, one input per line in the task's text format."""
    from relmo.tasks.run import load_task

    lines = _lines(file)  # a wrong path fails before the model is loaded
    task = load_task(run, elmo=elmo, precision=precision)  # type: ignore[arg-type]
    examples = iter(task.read_text(lines))
    size = 1 if file == "-" and sys.stdin.isatty() else BATCH_SIZE
    while batch := list(islice(examples, size)):
        for example, answer in zip(batch, task.predict(batch), strict=True):
            if as_json:
                typer.echo(json.dumps(task.describe(example, answer), ensure_ascii=False))
            else:
                typer.echo(task.render(example, answer))


def _lines(file: str) -> Iterator[str]:
    from relmo.tasks.data_files import decoded_lines, numbered_lines

    if file == "-":
        return (line for _, line in decoded_lines(sys.stdin.buffer, "standard input"))
    check_file(Path(file), "expected a text file, or - for standard input")
    return (line for _, line in numbered_lines(Path(file)))  # compressed files too
