"""relmo bench: speed of this machine, beside the peers'."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from relmo.cli.options import DEFAULT_MODEL, AsJson, Model
from relmo.cli.output import note, say

Text = Annotated[
    Path | None, typer.Option(help="One sentence per line; made-up sentences unless given.")
]
Precisions = Annotated[
    list[str] | None,
    typer.Option("--precision", help="float32, bfloat16 or int8; may be repeated. All."),
]
Peers = Annotated[
    list[str] | None,
    typer.Option(
        "--peers",
        metavar="NAME=PYTHON",
        help="allennlp=PYTHON or tensorflow=PYTHON, of its environment; may be repeated.",
    ),
]
Seconds = Annotated[float, typer.Option(help="Rounds are repeated for so long; three at least.")]


def bench(
    model: Model = DEFAULT_MODEL,
    text: Text = None,
    precision: Precisions = None,
    peers: Peers = None,
    seconds: Seconds = 30.0,
    as_json: AsJson = False,
) -> None:
    """Measure this machine, relmo by part and end to end, and other ELMos in the same rounds."""
    from relmo.lab.bench.run import PRECISIONS, Settings
    from relmo.lab.bench.run import bench as run
    from relmo.lab.bench.table import as_text

    settings = Settings(
        model=model,
        text=text,
        precisions=tuple(precision) if precision else PRECISIONS,  # type: ignore[arg-type]
        peers=tuple(peers or ()),
        seconds=seconds,
    )
    is_watched = sys.stderr is not None and sys.stderr.isatty()
    report = run(settings, note if is_watched else lambda _: None)
    if as_json:
        say(report, as_json)
    else:
        typer.echo(as_text(report), nl=False)
