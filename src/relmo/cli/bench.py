"""relmo bench: how fast relmo runs on this machine, beside other ELMo implementations."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from relmo.cli.options import DEFAULT_MODEL, AsJson, Model
from relmo.cli.output import note, say

Suite = Annotated[
    str,
    typer.Option(
        help="embed (speed on the CPU), growth (cost by length, batch and new words), gpu (speed "
        "on a GPU), train (ElmoLayer) or search (queries of an index)."
    ),
]
Text = Annotated[
    Path | None, typer.Option(help="Text file, one sentence per line; made-up text if omitted.")
]
Precisions = Annotated[
    list[str], typer.Option("--precision", help="float32, bfloat16 or int8; repeatable.")
]
Peers = Annotated[
    list[str] | None,
    typer.Option(
        "--peers",
        metavar="NAME=PYTHON",
        help="Compare with allennlp or tensorflow, run by the Python of its environment; "
        "repeatable. For the suite embed.",
    ),
]
Seconds = Annotated[float, typer.Option(help="Time for the rounds; at least three are run.")]
Device = Annotated[
    str | None, typer.Option(help="cpu or cuda, for gpu and train; the best one if omitted.")
]
Index = Annotated[str | None, typer.Option(help="Index made by relmo index, for search.")]
Output = Annotated[
    Path | None, typer.Option(help="File for the report and the command: .json or .md.")
]


def bench(
    model: Model = DEFAULT_MODEL,
    suite: Suite = "embed",
    text: Text = None,
    precision: Precisions = ["float32", "bfloat16", "int8"],  # noqa: B006 - typer copies it
    peers: Peers = None,
    seconds: Seconds = 30.0,
    device: Device = None,
    index: Index = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Measure how fast relmo runs on this machine, by part and end to end.

    Everything is timed in interleaved rounds; figures are medians.
    """
    from relmo.lab.bench.embedding import BenchSettings
    from relmo.lab.bench.report import as_text, write_result
    from relmo.lab.bench.suites import run_suite

    settings = BenchSettings(
        model=model,
        text=text,
        precisions=tuple(precision),  # type: ignore[arg-type]
        peers=tuple(peers or ()),
        seconds=seconds,
        device=device,
        index=index,
    )
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    report = run_suite(suite, settings, note if is_terminal else lambda _: None)
    if output is not None:
        write_result(output, report, shlex.join(["relmo", *sys.argv[1:]]))
    if as_json:
        say(report, as_json)
    else:
        typer.echo(as_text(report), nl=False)
