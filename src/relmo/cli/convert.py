"""relmo convert: a model from one layout into another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relmo.cli.output import note, say


def convert(
    source: Annotated[str, typer.Argument(metavar="SRC", help="Folder or name of the model.")],
    target: Annotated[Path, typer.Argument(metavar="DST", help="Folder to write; made if missing.")],
    to: Annotated[str, typer.Option("--to", help="native or hdf5 (the official layout).")],
    shard_mb: Annotated[int | None, typer.Option(help="Native: megabytes per file at most.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Report as one JSON object.")] = False,
) -> None:  # fmt: skip
    """Convert a model; no number changes on the way."""
    from relmo.weights.convert import convert_model

    report = convert_model(source, target, to, shard_mb)
    for loss in report.lost:
        note(loss)
    say(report.to_dict(), as_json)
