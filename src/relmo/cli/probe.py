"""relmo probe: what each layer of a model encodes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from relmo.cli.options import DEFAULT_MODEL, AsJson, Model, Precision
from relmo.cli.output import say

Name = Annotated[
    str,
    typer.Argument(
        metavar="PROBE",
        help="pos (parts of speech), wsd (word senses), wic (words in context) or intrinsic (how "
        "contextual each layer is).",
    ),
]
Data = Annotated[Path, typer.Option(help="Folder with the probe's data.")]
Output = Annotated[Path | None, typer.Option(help="Folder to write the record, run.json, to.")]
Vectors = Annotated[
    Path | None,
    typer.Option(help="File of static vectors to compare with, in GloVe or word2vec format."),
]
Cache = Annotated[
    Path | None, typer.Option(help="Folder in which to keep the data's layers for the next run.")
]
Seed = Annotated[int, typer.Option(help="Random seed of the classifiers.")]
SCORE = re.compile(r"(?P<part>.+?)_(?P<metric>accuracy|f1)_(?P<reading>.+)")
MEASURE = re.compile(r"(?P<part>.+)_(?P<reading>layer_\d+)")
MEASURED = {"wsd": "F1 in percent", "intrinsic": "cosines and explained variance"}


def probe(
    name: Name,
    data: Data,
    model: Model = DEFAULT_MODEL,
    output: Output = None,
    vectors: Vectors = None,
    cache: Cache = None,
    precision: Precision = "float32",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Measure what each layer of a model encodes, with as little training as possible."""
    from relmo.elmo import Elmo
    from relmo.lab.probes.run import check_probe, run_probe

    check_probe(name, data, output, vectors, cache, seed)
    elmo = Elmo.from_pretrained(model, precision=precision)  # type: ignore[arg-type]
    results = run_probe(name, elmo, data, output=output, vectors=vectors, cache=cache, seed=seed)
    if as_json:
        say(results, as_json=True)
    else:
        typer.echo(f"{name}, {elmo.config.name}: {MEASURED.get(name, 'accuracy in percent')}")
        Console().print(score_table(results))


def score_table(results: Mapping[str, float]) -> Table:
    """One row per reading, one column per part or measure."""
    cells: dict[str, dict[str, float]] = {}
    parts: dict[str, None] = {}  # an ordered set
    for name, value in results.items():
        found = SCORE.fullmatch(name) or MEASURE.fullmatch(name)
        assert found is not None, name
        parts[found["part"]] = None
        cells.setdefault(found["reading"], {})[found["part"]] = value
    table = Table(box=None, pad_edge=False)
    table.add_column("reading", no_wrap=True)
    for part in parts:
        table.add_column(part, justify="right", no_wrap=True)
    for reading, row in cells.items():
        table.add_row(reading, *(f"{row[part]:.2f}" if part in row else "" for part in parts))
    return table
