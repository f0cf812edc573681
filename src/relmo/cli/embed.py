"""relmo embed: lines of text -> a file of vectors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from relmo.cli.output import note, say
from relmo.errors import ConfigError

DEFAULT_MODEL = "relmo-untrained"


class OnError(StrEnum):
    """What to do with bytes that are not UTF-8."""

    strict = "strict"
    replace = "replace"


def embed(
    files: Annotated[list[str], typer.Argument(metavar="FILE|-", help="Text files, or - for standard input.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="OUT.h5, .npz, .parquet or .jsonl.")],
    model: Annotated[str, typer.Option(help="Folder or name of the model.")] = DEFAULT_MODEL,
    layers: Annotated[str, typer.Option(help="all, mean, top or a layer's number.")] = "all",
    tokenized: Annotated[bool, typer.Option("--tokenized", help="Lines are tokens separated by white space.")] = False,
    precision: Annotated[str, typer.Option(help="Arithmetic of the model.")] = "float32",
    errors: Annotated[OnError, typer.Option(help="Bytes that are not UTF-8: stop, or read U+FFFD.")] = OnError.strict,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run stopped.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Report as one JSON object.")] = False,
) -> None:  # fmt: skip
    """Embed text: one input line is one sequence and one key of the output."""
    from relmo.elmo import UNTRAINED, Elmo
    from relmo.embed_lines import embed_lines
    from relmo.progress import progress
    from relmo.text.lines import read_files

    sources = list(_sources(files))
    total = count_lines(sources, errors.value)
    elmo = Elmo.from_pretrained(model, precision=precision)  # type: ignore[arg-type]
    if elmo.config.name == UNTRAINED:
        note(f"{UNTRAINED} has random weights: its vectors carry no meaning; give --model")
    lines = progress(read_files(sources, errors.value), total, "lines", show=True)
    report = embed_lines(
        elmo, lines, output, layers=_layer(layers), tokenized=tokenized, resume=resume
    )
    say(report.to_dict(), as_json)


def count_lines(sources: list[Path | BinaryIO], errors: str) -> int | None:
    """Read files through once: a bad byte is found before hours of work, and lines are counted."""
    from relmo.text.lines import read_files

    paths = [source for source in sources if isinstance(source, Path)]
    if len(paths) < len(sources):
        return None  # standard input can be read only once
    return sum(1 for _ in read_files(paths, errors))  # type: ignore[arg-type]


def _sources(files: list[str]) -> Iterator[Path | BinaryIO]:
    if files.count("-") > 1:
        raise ConfigError("standard input, -, can be given only once")
    for file in files:
        if file == "-":
            yield sys.stdin.buffer
        elif Path(file).is_file():
            yield Path(file)
        else:
            raise ConfigError(f"{file}: no such file")


def _layer(given: str) -> str | int:
    return int(given) if given.isdecimal() else given
