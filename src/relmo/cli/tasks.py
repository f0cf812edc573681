"""Tasks: relmo train, evaluate and predict."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from relmo.cli.shared import (
    DEFAULT_MODEL,
    NOTHING_WRITTEN,
    AsJson,
    AsJsonLines,
    Changes,
    Precision,
    Resume,
    count_text,
    if_interrupted,
    note,
    say,
    say_json,
    say_line,
    say_rows,
)
from relmo.errors import ConfigError, TextError
from relmo.progress import printable, readable, working
from relmo.training.recipe import read_recipe

TaskName = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="Task: classify, multilabel, encoder, ner, pos, sst, snli, squad, srl or coref.",
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
        from relmo.tasks.run import train as train_model

    scores = train_model(
        task,
        data,
        output,
        elmo=None if elmo == "none" else elmo,
        recipe=recipe,
        changes=set_ or [],
        text=text,
        label=label,
        split_seed=split_seed,
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


def _score_rows(scores: Mapping[str, float]) -> list[list[str]]:
    """Scores for people: `test macro F1  81.25 %`."""
    from relmo.tasks.model_card import score_text

    return [[readable(name), score_text(name, value)] for name, value in scores.items()]


NUM_ERRORS = 20
"""Errors shown unless a number is given."""
Model = Annotated[
    str, typer.Argument(metavar="NAME|RUN", help="Installed task model, or folder of a run.")
]
DataFile = Annotated[Path, typer.Option(help="Labeled file in the task's format.")]
MovedElmo = Annotated[
    str | None,
    typer.Option("--elmo", help="Name or folder of the run's ELMo, if it has moved."),
]
ErrorNumber = Annotated[
    int | None,
    typer.Option(
        "--errors", metavar="[N]", min=0, help="Print errors by kind, and N of them (20)."
    ),
]
ErrorFile = Annotated[
    Path | None,
    typer.Option("--errors-to", help="Write all errors: .tsv, .csv, .jsonl or .parquet."),
]


def fill_in_number(args: Sequence[str]) -> list[str]:
    """The words of a command, with the number of `evaluate --errors` if it is left out.

    typer knows no option whose value may be missing.
    """
    filled = list(args)
    if "evaluate" in filled[:1] and "--errors" in filled:
        place = filled.index("--errors") + 1
        if not "".join(filled[place : place + 1]).lstrip("-").isdecimal():
            filled.insert(place, str(NUM_ERRORS))
    return filled


def evaluate(
    run: Model,
    data: DataFile,
    text: TextColumn = None,
    label: LabelColumn = None,
    elmo: MovedElmo = None,
    precision: Precision = "float32",
    errors: ErrorNumber = None,
    errors_to: ErrorFile = None,
    as_json: AsJson = False,
) -> None:
    """Score a trained task model on a labeled file, and show its errors."""
    _check_file(data, "expected one file in the task's format")
    from relmo.vectors.row_files import check_rows_output, write_rows

    if errors_to is not None:
        check_rows_output(errors_to)
    with working("loading PyTorch"):
        from relmo.tasks.installed import find_task_model, labels_of
        from relmo.tasks.mistakes import FIELDS, remarks, summary, table_rows
        from relmo.tasks.run import TaskCard, load_task
        from relmo.tasks.sources import read_examples
        from relmo.tasks.tables import Columns

    folder = find_task_model(run)
    facts, columns = TaskCard.read(folder).facts, Columns(text, label)
    with if_interrupted(NOTHING_WRITTEN):
        with working(f"loading {run}"):
            task = load_task(folder, elmo=elmo, precision=precision)  # type: ignore[arg-type]
        with working(f"reading {data}"):
            examples = read_examples(type(task), data, columns, facts.get("source", {}))
        if not examples:
            raise TextError(f"{data}: contains no examples")
        task.check(data, examples, facts)
        _say_if_unfinished(folder)
        gold = task.label_counts(examples)
        for remark in remarks(gold, labels_of(facts), task.uncounted):
            note(f"{data}: {remark}")
        with working("scoring"):
            scores = {**task.score_on(examples), **task.calibration_error(examples)}
        is_asked = errors is not None or errors_to is not None
        wrong = task.errors(examples) if is_asked else []
    if errors_to is not None:
        write_rows(errors_to, FIELDS, table_rows(wrong))
        note(f"{errors_to}: {count_text(len(wrong), 'error')}")
    found = {}
    rows = [["examples", f"{len(examples):,}"], *_score_rows(scores)]
    if errors is not None:
        counted = {label: gold[label] for label in gold if label not in task.uncounted}
        found["errors"] = summary(wrong, counted, errors)
        rows.append(["errors", f"{len(wrong):,}"])
    say({**scores, **found}, as_json, rows)
    if found and not as_json:
        _say_errors(found["errors"])


def _say_errors(found: Mapping[str, Any]) -> None:
    """Print a summary of errors as tables: counts, then examples."""
    from relmo.tasks.mistakes import TaskError

    tables: list[Sequence[Mapping[str, object]]] = []
    if "table" in found:
        tables.append([{"gold \\ predicted": gold, **row} for gold, row in found["table"].items()])
    else:
        tables.append(found.get("by_label") or found.get("confusions", []))
    if "table" in found or "by_label" in found:  # confusions have samples of their own
        wrong = [TaskError(**each) for each in found["examples"]]
        tables.append(
            [
                {
                    "kind": error.kind,
                    "score": "" if error.score is None else f"{error.score:.2f}",
                    "gold": _cut(error.gold),
                    "predicted": _cut(error.predicted),
                    "text": error.in_context(),
                }
                for error in wrong
            ]
        )
    for table in filter(None, tables):
        typer.echo()
        say_rows([list(table[0]), *(list(map(str, row.values())) for row in table)])


def _cut(text: str, width: int = 40) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


File = Annotated[str, typer.Argument(metavar="FILE|-", help="Text file, or - for standard input.")]
AnswersAsJson = Annotated[
    bool, typer.Option("--json", help="Print each answer as one JSON object.")
]
BATCH_SIZE = 256
"""Inputs read together; interactive input is answered line by line."""


def predict(
    run: Model,
    file: File = "-",
    text: TextColumn = None,
    elmo: MovedElmo = None,
    precision: Precision = "float32",
    as_json: AnswersAsJson = False,
) -> None:
    """Apply a trained task model to text: one input per line, in the task's text format.

    Of a table, its texts are read. Coreference reads documents, which a blank line ends.
    """
    if file != "-":
        hint = "expected a text file, or - for standard input"
        if " " in file:
            hint += f"; to read a text itself: echo {shlex.quote(file)} | relmo predict {run}"
        _check_file(Path(file), hint)
    with working("loading PyTorch"):
        from relmo.tasks.installed import find_task_model
        from relmo.tasks.predictor import in_parts, load
        from relmo.tasks.results import render, to_json
        from relmo.tasks.text_inputs import inputs_of_file

    folder = find_task_model(run)
    inputs = inputs_of_file(folder, file, text)  # a wrong path fails before loading
    with working(f"loading {run}"):
        predictor = load(run, elmo=elmo, precision=precision)  # type: ignore[arg-type]
    _say_if_unfinished(folder)
    task = predictor.task
    is_typed = file == "-" and sys.stdin.isatty()
    is_seen = sys.stdout.isatty()  # the answers are progress enough
    answered = "interrupted; answers so far are complete, one for each input in its order"
    shown = working("inputs answered", show=not (is_typed or is_seen))
    with if_interrupted(answered), shown as work:
        for part in in_parts(inputs, 1 if is_typed else BATCH_SIZE):
            for each, result in zip(part, predictor.answer([i.texts for i in part]), strict=True):
                if as_json and not any(text.strip() for text in each.texts):
                    continue  # a blank line
                if as_json:
                    named = zip(task.text_names, each.texts, strict=True)
                    found = {"line": each.line, **dict(named), task.result_name: to_json(result)}
                    say(found, as_json=True)
                else:
                    typer.echo(_shown(render(result, each.texts[-1].replace("\n", " "))))
            work.advance(len(part))


def _say_if_unfinished(folder: Path) -> None:
    """Say which weights of a run are used that was interrupted, or still goes on."""
    from relmo.training.run import Run

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


def _check_file(path: Path, hint: str) -> None:
    """Raise ConfigError unless the path is a file; the hint says what to give instead."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "no such file"
        raise ConfigError(f"{path}: {what}; {hint}")
