"""relmo info: what a model is."""

from __future__ import annotations

from typing import Annotated

import typer

from relmo.cli.output import say


def info(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder or name of the model.")],
    as_json: Annotated[bool, typer.Option("--json", help="Report as one JSON object.")] = False,
) -> None:
    """Show a model's sizes, training record, licence and checksums."""
    from relmo.weights.describe import describe_model

    facts = describe_model(model)
    say(facts, as_json)
    if False in facts["checksums"].values():
        raise typer.Exit(1)
