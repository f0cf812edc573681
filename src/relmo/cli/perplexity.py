"""relmo perplexity: how well a model predicts text."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from relmo.cli.options import DEFAULT_MODEL, AsJson, Model
from relmo.cli.output import say
from relmo.errors import ConfigError, TextError


class FromStart(Enum):
    """LSTM state at the start of a sentence."""

    ZERO = "zero"
    STORED = "stored"
    CARRIED = "carried"


File = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Text file or folder; a blank line ends a document."),
]
Start = Annotated[
    FromStart,
    typer.Option(
        help="LSTM state at the start of a sentence: carried over in a document, stored, or zero."
    ),
]


def perplexity(
    file: File,
    model: Model = DEFAULT_MODEL,
    start: Start = FromStart.CARRIED,
    as_json: AsJson = False,
) -> None:
    """Compute the perplexity of a text under the forward and backward language model."""
    from relmo.elmo import Elmo
    from relmo.progress import progress
    from relmo.text.documents import find_files, read_documents

    if not file.exists():
        raise ConfigError(f"{file}: no such file")
    elmo = Elmo.from_pretrained(model)
    lm = elmo.lm
    documents = [d for path in find_files([file]) for d in read_documents(path)]
    shown = progress(documents, len(documents), "documents", show=True)
    split = [elmo.sentences(document) for document in shown]
    if not any(words for document in split for words in document):
        raise TextError(f"{file}: contains no words")
    say(lm.perplexity(split, start.value).to_dict(), as_json)
