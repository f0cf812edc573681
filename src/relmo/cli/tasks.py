"""Tasks: relmo train, evaluate and predict."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from relmo.cli.shared import (
    DEFAULT_MODEL,
    AsJson,
    AsJsonLines,
    Changes,
    Precision,
    Resume,
    note,
    say,
    say_json,
    say_line,
)
from relmo.errors import ConfigError, TextError
from relmo.progress import working

TaskName = Annotated[
    str, typer.Argument(metavar="TASK", help="Task: ner, pos, sst, snli, squad, srl or coref.")
]
DataFolder = Annotated[Path, typer.Option(help="Folder with the train, dev and test files.")]
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
    data: DataFolder,
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
    with working("loading PyTorch"):
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


Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a training run.")]
DataFile = Annotated[Path, typer.Option(help="Labeled file in the task's format.")]
MovedElmo = Annotated[
    str | None,
    typer.Option("--elmo", help="Name or folder of the run's ELMo, if it has moved."),
]


def evaluate(
    run: Run,
    data: DataFile,
    elmo: MovedElmo = None,
    precision: Precision = "float32",
    as_json: AsJson = False,
) -> None:
    """Score a trained task model on a labeled file."""
    from relmo.tasks.run import TaskCard, load_task

    _check_file(data, "expected one file in the task's format")
    task = load_task(run, elmo=elmo, precision=precision)  # type: ignore[arg-type]
    examples = task.read(data, "test")
    if not examples:
        raise TextError(f"{data}: contains no examples")
    task.check(data, examples, TaskCard.read(run).facts)
    say(task.score_on(examples), as_json)


File = Annotated[str, typer.Argument(metavar="FILE|-", help="Text file, or - for standard input.")]
AnswersAsJson = Annotated[
    bool, typer.Option("--json", help="Print each answer as one JSON object.")
]
BATCH_SIZE = 256
"""Examples predicted together; interactive input is answered line by line."""


def predict(
    run: Run,
    file: File = "-",
    elmo: MovedElmo = None,
    precision: Precision = "float32",
    as_json: AnswersAsJson = False,
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
    _check_file(Path(file), "expected a text file, or - for standard input")
    return (line for _, line in numbered_lines(Path(file)))  # compressed files too


def _check_file(path: Path, hint: str) -> None:
    """Raise ConfigError unless the path is a file; the hint says what to give instead."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "no such file"
        raise ConfigError(f"{path}: {what}; {hint}")
