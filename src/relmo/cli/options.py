"""Options that several commands take, and what they mean where a user says nothing."""

from typing import Annotated

import typer

DEFAULT_MODEL = "relmo-untrained"
"""Until a trained model ships with relmo; its vectors are random, and `embed` says so."""

Model = Annotated[str, typer.Option(help="Folder or name of the model.")]
AsJson = Annotated[bool, typer.Option("--json", help="Report as one JSON object.")]
