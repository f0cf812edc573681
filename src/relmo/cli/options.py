"""Options that several commands take, and what they mean where a user says nothing."""

from typing import Annotated

import typer

DEFAULT_MODEL = "relmo-en-small"
"""It comes with relmo."""

Model = Annotated[str, typer.Option(help="Folder or name of the model.")]
Precision = Annotated[str, typer.Option(help="float32 (exact), bfloat16, int8 or auto.")]
AsJson = Annotated[bool, typer.Option("--json", help="Report as one JSON object.")]
