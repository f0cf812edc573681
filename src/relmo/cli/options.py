"""Options that several commands share."""

from typing import Annotated

import typer

DEFAULT_MODEL = "relmo-en-small"
"""The model bundled with relmo."""

Model = Annotated[str, typer.Option(help="Model name or folder.")]
Precision = Annotated[
    str, typer.Option(help="float32 (exact), bfloat16, int8 or auto (bfloat16 if supported).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
AsJsonLines = Annotated[bool, typer.Option("--json", help="Print progress as JSON lines.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the recipe; repeatable."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint.")]
