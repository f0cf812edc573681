"""relmo evaluate: score a trained task model on labeled data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relmo.cli.options import AsJson, Precision, check_file
from relmo.cli.output import say
from relmo.errors import TextError

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a training run.")]
Data = Annotated[Path, typer.Option(help="Labeled file in the task's format.")]
ElmoName = Annotated[
    str | None,
    typer.Option("--elmo", help="Name or folder of the run's ELMo, if it has moved."),
]


def evaluate(
    run: Run,
    data: Data,
    elmo: ElmoName = None,
    precision: Precision = "float32",
    as_json: AsJson = False,
) -> None:
    """Score a trained task model on a labeled file."""
    from relmo.tasks.run import TaskCard, load_task

    check_file(data, "expected one file in the task's format")
    task = load_task(run, elmo=elmo, precision=precision)  # type: ignore[arg-type]
    examples = task.read(data, "test")
    if not examples:
        raise TextError(f"{data}: contains no examples")
    task.check(data, examples, TaskCard.read(run).facts)
    say(task.score_on(examples), as_json)
