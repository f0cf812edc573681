"""relmo info: what a model is."""

from __future__ import annotations

from typing import Annotated

import typer

from relmo.cli.options import AsJson
from relmo.cli.output import say
from relmo.errors import WeightError


def info(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder or name of the model.")],
    as_json: AsJson = False,
) -> None:
    """Show a model's sizes, training record, licence and checksums."""
    from relmo.weights.find import describe_model

    facts = describe_model(model)
    say(facts, as_json)
    if any(file["matches"] is False for file in facts.get("files", {}).values()):
        raise WeightError(
            f"{facts['folder']}: a file is not the one that was written; copy it again"
        )
