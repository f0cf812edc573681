"""relmo convert: change the file format of a model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from relmo.cli.options import AsJson
from relmo.cli.output import note, say

Source = Annotated[str, typer.Argument(metavar="SRC", help="Model name or folder.")]
Target = Annotated[Path, typer.Argument(metavar="DST", help="Output folder; created if missing.")]
To = Annotated[str, typer.Option("--to", help="native, or hdf5 (the official format).")]
Stored = Annotated[
    str, typer.Option("--storage", help="Native only: float32, or int8 (a quarter of the size).")
]
ShardMb = Annotated[int | None, typer.Option(help="Native only: maximum size of a file in MB.")]


def convert(
    source: Source,
    target: Target,
    to: To,
    storage: Stored = "float32",
    shard_mb: ShardMb = None,
    as_json: AsJson = False,
) -> None:
    """Convert a model to another file format; weights stay exact unless stored as int8."""
    from relmo.weights.convert import convert_model

    report = convert_model(source, target, to, shard_mb, storage)  # type: ignore[arg-type]
    for loss in report.lost:
        note(loss)
    say(asdict(report), as_json)
