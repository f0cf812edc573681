"""relmo report: the paper's tables and figures from run records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relmo.cli.options import AsJson
from relmo.cli.output import say

Runs = Annotated[
    Path,
    typer.Option(
        metavar="DIR", help="Folder of runs: every run.json and collection (.jsonl) below it."
    ),
]
Output = Annotated[
    Path, typer.Option(metavar="DIR", help="Folder for report.md, index.html and their pictures.")
]


def report(runs: Runs, output: Output, as_json: AsJson = False) -> None:
    """Make the paper's tables and figures from run records; no model is loaded.

    report.toml in the folder of runs can name models and data sets.
    """
    from relmo.lab.reports.report import write_report

    say(write_report(runs, output), as_json)
