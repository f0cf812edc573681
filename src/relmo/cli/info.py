"""relmo info: describe a model."""

from __future__ import annotations

from typing import Annotated

import typer

from relmo.cli.options import AsJson
from relmo.cli.output import say
from relmo.errors import WeightError


def info(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model name or folder.")],
    as_json: AsJson = False,
) -> None:
    """Show the sizes, training record, license and checksums of a model."""
    from relmo.weights.find import describe_model

    facts = describe_model(model)
    say(facts, as_json)
    if any(file["matches"] is False for file in facts.get("files", {}).values()):
        raise WeightError(
            f"{facts['folder']}: a file does not match its checksum; copy the model again"
        )
