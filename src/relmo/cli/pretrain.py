"""relmo pretrain: train a language model on plain text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from relmo.cli.options import AsJsonLines, Changes, Resume
from relmo.cli.output import note, say, say_json, say_line

Recipe = Annotated[str, typer.Option(help="Recipe: tiny, small, base, or a TOML file.")]
Data = Annotated[list[str], typer.Option(help="Text files, folders or globs; repeatable.")]
Output = Annotated[Path, typer.Option(help="Folder of the run; the model goes to OUTPUT/model.")]
Minutes = Annotated[
    float | None, typer.Option(help="Fit the whole training schedule into this time.")
]
Init = Annotated[
    str | None, typer.Option(help="Name or folder of a model to fine-tune instead of a new one.")
]
Cache = Annotated[Path | None, typer.Option(help="Folder for the tokenized text.")]


def pretrain(
    recipe: Recipe,
    data: Data,
    output: Output,
    minutes: Minutes = None,
    set_: Changes = None,
    resume: Resume = False,
    init: Init = None,
    cache: Cache = None,
    as_json: AsJsonLines = False,
) -> None:
    """Pretrain a model on plain text, or fine-tune one with --init."""
    from relmo.tasks.lm.pretrain import pretrain as run
    from relmo.tasks.lm.settings import load_recipe
    from relmo.train.distributed import is_main_process
    from relmo.weights.find import read_model

    scores = run(
        load_recipe(recipe, set_ or [], minutes),
        data,
        output,
        resume=resume,
        init=None if init is None else read_model(init),
        cache_folder=cache,
        report=say_json if as_json else _as_line,
    )
    if not as_json and is_main_process():
        say({**scores, "model": str(output / "model")}, as_json)


def _as_line(values: dict[str, Any]) -> None:
    if "corpus" in values:
        counts = values["corpus"]
        note(
            f"{counts['train']:,} tokens to train on, {counts['held_out']:,} held out, "
            f"the vocabulary covers {values['coverage']:.2%}"
        )
        return
    say_line(values)
