"""relmo evaluate: a trained task's model on other labelled data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relmo.cli.options import AsJson
from relmo.cli.output import say

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a trained run.")]
Data = Annotated[Path, typer.Option(help="File in the task's format.")]


def evaluate(run: Run, data: Data, as_json: AsJson = False) -> None:
    """Score a trained task's model on a labelled file."""
    from relmo.tasks.run import load_task

    task = load_task(run)
    say(task.score_on(task.read(data, "test")), as_json)
