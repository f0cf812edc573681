"""relmo train: train a task model on labeled data, with or without ELMo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relmo.cli.options import DEFAULT_MODEL, AsJsonLines, Changes, Resume
from relmo.cli.output import note, say, say_json, say_line

TaskName = Annotated[
    str, typer.Argument(metavar="TASK", help="Task: ner, pos, sst, snli, squad, srl or coref.")
]
Data = Annotated[Path, typer.Option(help="Folder with the train, dev and test files.")]
Output = Annotated[Path, typer.Option(help="Folder of the run.")]
Recipe = Annotated[
    str | None, typer.Option(help="Recipe name or TOML file; by default the task's own recipe.")
]
ElmoName = Annotated[
    str, typer.Option("--elmo", help="ELMo model name or folder; none trains the baseline.")
]
Vectors = Annotated[
    Path | None, typer.Option(help="Static word vectors in the text format of GloVe or word2vec.")
]
Cache = Annotated[Path | None, typer.Option(help="Folder for the ELMo layers of the data.")]


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
    as_json: AsJsonLines = False,
) -> None:
    """Train a task model on labeled data and score it on the test set."""
    from relmo.tasks.run import load_task_recipe, train_task

    chosen = load_task_recipe(task, recipe, set_ or [])
    if vectors is None:
        note("no --vectors given: word vectors are trained from scratch")
    scores = train_task(
        task,
        chosen,
        data,
        output,
        elmo=None if elmo == "none" else elmo,
        vectors=vectors,
        cache=cache,
        resume=resume,
        report=say_json if as_json else say_line,
    )
    say({**scores, "run": str(output)}, as_json)
