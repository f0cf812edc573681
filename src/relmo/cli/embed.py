"""relmo embed: vectors for every line of a text."""

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
    """How to treat invalid UTF-8."""

    STRICT = "strict"
    REPLACE = "replace"


Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE|-", help="Text files, one sequence per line; - for standard input."
    ),
]
Output = Annotated[
    Path, typer.Option("--output", "-o", help="Output file: .h5, .npz, .parquet or .jsonl.")
]
Layers = Annotated[
    str, typer.Option(help="all, mean, top, bottom (mean of 0 and 1) or a layer number.")
]
Tokenized = Annotated[
    bool, typer.Option("--tokenized", help="Split lines at whitespace instead of tokenizing.")
]
OnBadBytes = Annotated[
    OnError, typer.Option(help="On invalid UTF-8: strict stops, replace inserts U+FFFD.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue an interrupted run of the same command.")
]


def embed(
    files: Files,
    output: Output,
    model: Model = DEFAULT_MODEL,
    layers: Layers = "all",
    tokenized: Tokenized = False,
    precision: Precision = "float32",
    errors: OnBadBytes = OnError.STRICT,
    resume: Resume = False,
    as_json: AsJson = False,
) -> None:
    """Compute word vectors for text; each line is one sequence, stored under its line number."""
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
        note(f"{UNTRAINED} has random weights, so its vectors are meaningless; omit --model")
    total = count_lines(sources, errors)
    lines = progress(read_files(sources, errors.value), total, "lines", show=True)
    with closing(lines):  # removes the progress bar before an error is printed
        report = embed_lines(elmo, lines, output, layers=chosen, tokenized=tokenized, resume=resume)
    if errors is OnError.REPLACE and (replaced := report.lines_with_replacements):
        note(f"{replaced} lines contain U+FFFD, from invalid UTF-8 or already in the input")
    say(report.to_dict(), as_json)


def count_lines(sources: list[Path | BinaryIO], errors: OnError) -> int | None:
    """Count lines; reading the files once also finds invalid bytes before hours of work."""
    from relmo.text.documents import read_files

    if not all(isinstance(source, Path) and source.is_file() for source in sources):
        return None  # a pipe can be read only once
    count = 0
    for _ in read_files(sources, errors.value):
        count += 1
    return count


def _check_apart(sources: list[Path | BinaryIO], output: Path) -> None:
    """Raise ConfigError if the output is one of the inputs."""
    for source in sources:
        if isinstance(source, Path) and output.exists() and source.samefile(output):
            raise ConfigError(f"{output} is also an input; choose another output")


def _sources(files: list[str]) -> Iterator[Path | BinaryIO]:
    if files.count("-") > 1:
        raise ConfigError("standard input (-) can be given only once")
    for file in files:
        if file == "-":
            if sys.stdin is None:
                raise ConfigError("standard input is closed; give a file")
            yield sys.stdin.buffer
        elif Path(file).is_dir():
            raise ConfigError(f"{file}: is a folder; expected text files")
        elif not Path(file).exists():
            raise ConfigError(f"{file}: no such file")
        else:
            yield Path(file)
