"""relmo report: the paper's tables and figures from run records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relmo.cli.options import AsJson
from relmo.cli.output import say

Runs = Annotated[
    Path, typer.Option(metavar="DIR", help="Folder of runs; every run.json below it is read.")
]
Output = Annotated[
    Path, typer.Option(metavar="DIR", help="Where report.md, index.html and pictures go.")
]


def report(runs: Runs, output: Output, as_json: AsJson = False) -> None:
    """Make the paper's tables and figures of run records alone; no model is read."""
    from relmo.lab.reports.report import write_report

    say(write_report(runs, output), as_json)
