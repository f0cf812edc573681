"""Options that several commands take, and what they mean where a user says nothing."""

from typing import Annotated

import typer

DEFAULT_MODEL = "relmo-en-small"
"""It comes with relmo."""

Model = Annotated[str, typer.Option(help="Folder or name of the model.")]
AsJson = Annotated[bool, typer.Option("--json", help="Report as one JSON object.")]
