"""relmo train: labelled data -> a task's model, with ELMo or without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from relmo.cli.options import DEFAULT_MODEL
from relmo.cli.output import note, say, say_line

TaskName = Annotated[
    str, typer.Argument(metavar="TASK", help="ner, pos, sst, snli, squad, srl or coref.")
]
Data = Annotated[Path, typer.Option(help="Folder with the train, dev and test files.")]
Output = Annotated[Path, typer.Option(help="Folder of the run.")]
Recipe = Annotated[
    str | None, typer.Option(help="Name of a recipe in the package, or a TOML file.")
]
ElmoName = Annotated[
    str, typer.Option("--elmo", help="Folder or name of the ELMo to add; none for the baseline.")
]
Vectors = Annotated[
    Path | None, typer.Option(help="Static word vectors, a text file as GloVe's or word2vec's.")
]
Cache = Annotated[Path | None, typer.Option(help="Where ELMo's layers of the data are kept.")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change the recipe.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")]
AsJson = Annotated[bool, typer.Option("--json", help="Report as JSON lines.")]


def train(
    task: TaskName,
    data: Data,
    output: Output,
    recipe: Recipe = None,
    elmo: ElmoName = DEFAULT_MODEL,
    vectors: Vectors = None,
    cache: Cache = None,
    set_: Changes = None,
    resume: Resume = False,
    as_json: AsJson = False,
) -> None:
    """Train a task's model on labelled data and score it on the test part."""
    from relmo.tasks.run import load_task_recipe, train_task

    chosen = load_task_recipe(task, recipe, set_ or [])
    if vectors is None:
        note("without --vectors the static word vectors are trained from nothing")
    scores = train_task(
        task,
        chosen,
        data,
        output,
        elmo=None if elmo == "none" else elmo,
        vectors=vectors,
        cache=cache,
        resume=resume,
        report=_as_json if as_json else say_line,
    )
    say({**scores, "run": str(output)}, as_json)


def _as_json(values: dict[str, Any]) -> None:
    typer.echo(json.dumps(values))
