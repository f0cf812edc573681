"""relmo embed: lines of text -> a file of vectors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from enum import Enum
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from relmo.cli.options import DEFAULT_MODEL, AsJson, Model, Precision
from relmo.cli.output import note, say
from relmo.errors import ConfigError


class OnError(Enum):
    """What to do with bytes that are not UTF-8."""

    STRICT = "strict"
    REPLACE = "replace"


Files = Annotated[
    list[str], typer.Argument(metavar="FILE|-", help="Text files, or - for standard input.")
]
Output = Annotated[
    Path, typer.Option("--output", "-o", help="OUT.h5, OUT.npz, OUT.parquet or OUT.jsonl.")
]
Layer = Annotated[str, typer.Option("--layers", help="all, mean, top or a layer's number.")]
Tokenized = Annotated[
    bool, typer.Option("--tokenized", help="Lines are tokens separated by white space.")
]
OnBadBytes = Annotated[
    OnError, typer.Option(help="Bytes that are not UTF-8: stop there, or read U+FFFD.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on where an interrupted run of this job stopped.")
]


def embed(
    files: Files,
    output: Output,
    model: Model = DEFAULT_MODEL,
    layers: Layer = "all",
    tokenized: Tokenized = False,
    precision: Precision = "float32",
    errors: OnBadBytes = OnError.STRICT,
    resume: Resume = False,
    as_json: AsJson = False,
) -> None:
    """Embed text: one input line is one sequence and one key of the output."""
    from relmo.batch import embed_lines
    from relmo.elmo import Elmo
    from relmo.layers import check_layers, parse_layers
    from relmo.progress import progress
    from relmo.text.documents import read_files
    from relmo.vectors.writer import check_output
    from relmo.weights.find import UNTRAINED

    sources = list(_sources(files))
    check_output(output)
    _check_apart(sources, output)
    elmo = Elmo.from_pretrained(model, precision=precision)  # type: ignore[arg-type]
    chosen = parse_layers(layers)
    check_layers(chosen, elmo.config.num_layers)
    if elmo.config.name == UNTRAINED:
        note(f"{UNTRAINED} has random weights: its vectors carry no meaning; leave --model out")
    total = count_lines(sources, errors)
    lines = progress(read_files(sources, errors.value), total, "lines", show=True)
    with closing(lines):  # takes the bar away before an error is printed
        report = embed_lines(elmo, lines, output, layers=chosen, tokenized=tokenized, resume=resume)
    if errors is OnError.REPLACE and (replaced := report.lines_with_replacements):
        note(f"{replaced} lines hold U+FFFD, where bytes were not UTF-8 or it stood already")
    say(report.to_dict(), as_json)


def count_lines(sources: list[Path | BinaryIO], errors: OnError) -> int | None:
    """Read files through once: a bad byte is found before hours of work, and lines are counted."""
    from relmo.text.documents import read_files

    if not all(isinstance(source, Path) and source.is_file() for source in sources):
        return None  # pipes can be read only once
    count = 0
    for _ in read_files(sources, errors.value):
        count += 1
    return count


def _check_apart(sources: list[Path | BinaryIO], output: Path) -> None:
    """Refuse to write over what is read."""
    for source in sources:
        if isinstance(source, Path) and output.exists() and source.samefile(output):
            raise ConfigError(f"{output} is the input; choose another output")


def _sources(files: list[str]) -> Iterator[Path | BinaryIO]:
    if files.count("-") > 1:
        raise ConfigError("standard input, -, can be given only once")
    for file in files:
        if file == "-":
            if sys.stdin is None:
                raise ConfigError("standard input is closed; give a file")
            yield sys.stdin.buffer
        elif Path(file).is_dir():
            raise ConfigError(f"{file} is a folder; give its files")
        elif not Path(file).exists():
            raise ConfigError(f"{file}: no such file")
        else:
            yield Path(file)
