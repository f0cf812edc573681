"""relmo evaluate: a trained task's model on other labelled data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relmo.cli.options import AsJson, Precision
from relmo.cli.output import say
from relmo.errors import ConfigError, TextError

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a trained run.")]
Data = Annotated[Path, typer.Option(help="File in the task's format.")]
ElmoName = Annotated[
    str | None,
    typer.Option("--elmo", help="Folder or name of the run's ELMo, if it lies elsewhere now."),
]


def evaluate(
    run: Run,
    data: Data,
    elmo: ElmoName = None,
    precision: Precision = "float32",
    as_json: AsJson = False,
) -> None:
    """Score a trained task's model on a labelled file."""
    from relmo.tasks.run import TaskCard, load_task

    check_file(data, "one file in the task's format is needed")
    task = load_task(run, elmo=elmo, precision=precision)  # type: ignore[arg-type]
    examples = task.read(data, "test")
    if not examples:
        raise TextError(f"{data}: holds no example to score")
    task.check(data, examples, TaskCard.read(run).facts)
    say(task.score_on(examples), as_json)


def check_file(path: Path, hint: str) -> None:
    """Raise ConfigError unless it is a file; the hint says what is wanted."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "no such file"
        raise ConfigError(f"{path}: {what}; {hint}")
