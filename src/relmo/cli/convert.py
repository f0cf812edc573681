"""relmo convert: a model from one layout into another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relmo.cli.options import AsJson
from relmo.cli.output import note, say

Source = Annotated[str, typer.Argument(metavar="SRC", help="Folder or name of the model.")]
Target = Annotated[Path, typer.Argument(metavar="DST", help="Folder to write; made if missing.")]
To = Annotated[str, typer.Option("--to", help="native, or hdf5 (the official layout).")]
Stored = Annotated[
    str, typer.Option("--storage", help="Native: float32, or int8, which is about a quarter.")
]
ShardMb = Annotated[int | None, typer.Option(help="Native: megabytes per file at most.")]


def convert(
    source: Source,
    target: Target,
    to: To,
    storage: Stored = "float32",
    shard_mb: ShardMb = None,
    as_json: AsJson = False,
) -> None:
    """Convert a model from one layout into another; only int8 changes a number on the way."""
    from relmo.weights.convert import convert_model

    report = convert_model(source, target, to, shard_mb, storage)  # type: ignore[arg-type]
    for loss in report.lost:
        note(loss)
    say(report.to_dict(), as_json)
