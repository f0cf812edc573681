"""Tasks: relmo train, evaluate and predict."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from relmo.cli.shared import (
    DEFAULT_MODEL,
    NOTHING_WRITTEN,
    AsJson,
    AsJsonLines,
    Changes,
    Precision,
    Resume,
    if_interrupted,
    note,
    say,
    say_json,
    say_line,
)
from relmo.errors import ConfigError, TextError
from relmo.progress import printable, working
from relmo.train.recipe import read_recipe

TaskName = Annotated[
    str,
    typer.Argument(
        metavar="TASK", help="Task: classify, ner, pos, sst, snli, squad, srl or coref."
    ),
]
Data = Annotated[
    Path,
    typer.Option(
        metavar="FILE|FOLDER",
        help="One file, which is split 80/10/10, or a folder with train, dev and test files.",
    ),
]
TextColumn = Annotated[
    str | None,
    typer.Option("--text", metavar="COLUMN", help="Column of a table that holds the texts."),
]
LabelColumn = Annotated[
    str | None,
    typer.Option("--label", metavar="COLUMN", help="Column of a table that holds the labels."),
]
SplitSeed = Annotated[int, typer.Option(min=0, help="Random seed of the split of one file.")]
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
    text: TextColumn = None,
    label: LabelColumn = None,
    recipe: Recipe = None,
    elmo: ElmoName = DEFAULT_MODEL,
    vectors: Vectors = None,
    cache: Cache = None,
    split_seed: SplitSeed = 0,
    set_: Changes = None,
    resume: Resume = False,
    as_json: AsJsonLines = False,
) -> None:
    """Train a task model on labeled data and score it on the test set."""
    if not data.exists():  # errors first: loading PyTorch takes seconds
        raise ConfigError(f"{data}: no such file or folder; give a file or a folder of data")
    if recipe is not None:
        read_recipe("tasks", recipe, set_ or [])
    with working("loading PyTorch"):
        from relmo.tasks.run import load_task_recipe, train_task
        from relmo.tasks.sources import Source
        from relmo.tasks.tables import Columns

    source = Source(data, Columns(text, label), split_seed)
    chosen = load_task_recipe(task, recipe, set_ or [], source)
    if vectors is None and (chosen.input.random_width or elmo == "none"):
        note("no --vectors given: word vectors are trained from scratch")
    scores = train_task(
        task,
        chosen,
        source,
        output,
        elmo=None if elmo == "none" else elmo,
        vectors=vectors,
        cache=cache,
        resume=resume,
        report=say_json if as_json else say_line,
    )
    use = shlex.join(["relmo", "predict", str(output), "FILE"])
    say(
        {**scores, "run": str(output)},
        as_json,
        [*_score_rows(scores), ["run", str(output)], ["next", use]],
    )


PERCENTAGES = ("accuracy", "f1", "precision", "recall", "perfect", "exact_match")
"""How the names of scores in percent end."""


def _score_rows(scores: Mapping[str, float]) -> list[list[str]]:
    """Scores for people: `test macro F1  81.25 %`."""
    return [
        [
            name.replace("_", " ").replace("f1", "F1"),
            f"{value:.2f} %" if name.endswith(PERCENTAGES) else f"{value:,.4g}",
        ]
        for name, value in scores.items()
    ]


Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a training run.")]
DataFile = Annotated[Path, typer.Option(help="Labeled file in the task's format.")]
MovedElmo = Annotated[
    str | None,
    typer.Option("--elmo", help="Name or folder of the run's ELMo, if it has moved."),
]


def evaluate(
    run: Run,
    data: DataFile,
    text: TextColumn = None,
    label: LabelColumn = None,
    elmo: MovedElmo = None,
    precision: Precision = "float32",
    as_json: AsJson = False,
) -> None:
    """Score a trained task model on a labeled file."""
    _check_file(data, "expected one file in the task's format")
    with working("loading PyTorch"):
        from relmo.tasks.run import TaskCard, load_task
        from relmo.tasks.sources import read_examples
        from relmo.tasks.tables import Columns

    facts, columns = TaskCard.read(run).facts, Columns(text, label)
    with if_interrupted(NOTHING_WRITTEN):
        with working(f"loading {run}"):
            task = load_task(run, elmo=elmo, precision=precision)  # type: ignore[arg-type]
        with working(f"reading {data}"):
            examples = read_examples(type(task), data, columns, facts.get("source", {}))
        if not examples:
            raise TextError(f"{data}: contains no examples")
        task.check(data, examples, facts)
        _say_if_unfinished(run)
        scores = task.score_on(examples)
    say(scores, as_json, [["examples", f"{len(examples):,}"], *_score_rows(scores)])


File = Annotated[str, typer.Argument(metavar="FILE|-", help="Text file, or - for standard input.")]
AnswersAsJson = Annotated[
    bool, typer.Option("--json", help="Print each answer as one JSON object.")
]
BATCH_SIZE = 256
"""Examples predicted together; interactive input is answered line by line."""


def predict(
    run: Run,
    file: File = "-",
    text: TextColumn = None,
    elmo: MovedElmo = None,
    precision: Precision = "float32",
    as_json: AnswersAsJson = False,
) -> None:
    """Apply a trained task model to text, one input per line in the task's text format.

    Of a table, its texts are read.
    """
    if file != "-":
        _check_file(Path(file), "expected a text file, or - for standard input")
    with working("loading PyTorch"):
        from relmo.tasks.run import load_task

    lines = _lines(run, file, text)  # a wrong path fails before the model is loaded
    with working(f"loading {run}"):
        task = load_task(run, elmo=elmo, precision=precision)  # type: ignore[arg-type]
    _say_if_unfinished(run)
    read = _Counted(lines)
    examples = ((read.number, example) for example in task.read_text(read))
    is_typed = file == "-" and sys.stdin.isatty()
    is_seen = sys.stdout.isatty()  # the answers are progress enough
    size = 1 if is_typed else BATCH_SIZE
    answered = "interrupted; answers so far are complete, one for each input in its order"
    shown = working(f"{task.noun} answered", show=not (is_typed or is_seen))
    with if_interrupted(answered), shown as work:
        answered_line, keeps_lines = 0, task.answers_lines and not as_json
        while batch := list(islice(examples, size)):
            answers = task.predict([example for _, example in batch], show=False)
            for (line, example), answer in zip(batch, answers, strict=True):
                if keeps_lines:
                    typer.echo("\n" * (line - answered_line - 1), nl=False)
                if as_json:
                    where = {"line": line} if task.answers_lines else {}
                    found = {**where, **task.describe(example, answer)}
                    typer.echo(json.dumps(found, ensure_ascii=False))
                else:
                    typer.echo(_shown(task.render(example, answer)))
                answered_line = line
            work.advance(len(batch))
        if keeps_lines:
            typer.echo("\n" * (read.number - answered_line), nl=False)


class _Counted:
    """Lines, and the number of the last one that was read."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.number, self._lines = 0, lines

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.number += 1
            yield line


def _say_if_unfinished(folder: Path) -> None:
    """Say which weights of a run are used that was interrupted, or still goes on."""
    from relmo.train.run import Run

    run = Run(folder)
    if not run.record_path.exists() and (best := run.read_best()):
        note(
            f"{folder} is unfinished (best weights so far, of step {best.step:,}, are used); "
            f"continue with relmo train … --resume"
        )


def _shown(text: str) -> str:
    """Text whose labels a terminal shows and does not obey; lines and columns stay."""
    cells = (map(printable, line.split("\t")) for line in text.split("\n"))
    return "\n".join("\t".join(line) for line in cells)


def _lines(run: Path, file: str, text: str | None) -> Iterator[str]:
    """The lines of a file or of standard input; the texts of a table."""
    from relmo.tasks.data_files import decoded_lines, numbered_lines, stem_of
    from relmo.tasks.registry import find_task
    from relmo.tasks.run import TaskCard
    from relmo.tasks.sources import read_texts
    from relmo.tasks.tables import Columns

    path = Path(file)
    card = TaskCard.read(run)
    task = find_task(card.task)
    is_csv = bool(task.tables) and stem_of(path).endswith(".csv")  # none is plain text
    if file != "-" and (is_csv or task.is_table(path)):
        return read_texts(path, Columns(text=text), card.facts.get("source", {}))
    if text is not None:
        where = "standard input" if file == "-" else path.name
        raise ConfigError(f"--text names a column of a table, but {where} is plain text")
    if file == "-":
        return (line for _, line in decoded_lines(sys.stdin.buffer, "standard input"))
    return (line for _, line in numbered_lines(path))  # compressed files too


def _check_file(path: Path, hint: str) -> None:
    """Raise ConfigError unless the path is a file; the hint says what to give instead."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "no such file"
        raise ConfigError(f"{path}: {what}; {hint}")
