"""relmo index: files -> an index to search."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from relmo.cli.options import AsJson
from relmo.cli.output import note, say
from relmo.errors import ConfigError
from relmo.layers import parse_layers

SHOWN_BAD_ROWS = 20
"""Bad rows that are listed; the others are counted."""

Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH…", help="Files and folders to index: .txt .md .csv .tsv .xlsx .jsonl."
    ),
]
Out = Annotated[
    Path | None, typer.Option(help="Index file to create; an existing index is updated.")
]
StoreAt = Annotated[
    str | None,
    typer.Option("--store", help="PostgreSQL address, postgresql://…, instead of --out."),
]
Text = Annotated[
    list[str] | None,
    typer.Option("--text", help=r"Table column with the text; may be repeated. \[default: text]"),
]
Id = Annotated[
    str | None,
    typer.Option("--id", help=r"Table column that identifies a row. \[default: row number]"),
]
Meta = Annotated[
    list[str] | None,
    typer.Option(
        "--meta",
        help=r"Table column to keep for filters; may be repeated. \[default: all but the text]",
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option("--model", help=r"Model name or folder. \[default: relmo-en-small]"),
]
Unit = Annotated[
    str | None,
    typer.Option(
        "--passages",
        help="How to split documents: auto (paragraphs of text files, table rows whole), "
        r"paragraph, sentence, line or window. \[default: auto]",
    ),
]
MaxWords = Annotated[
    int | None, typer.Option(help=r"Maximum number of words in a passage. \[default: 512]")
]
Language = Annotated[
    str | None,
    typer.Option(
        help="Language of the stemmer for hybrid search, or none for languages without one. "
        r"\[default: english]"
    ),
]
Layer = Annotated[
    str | None,
    typer.Option(help=r"Layer of the model: mean, top, bottom or a number. \[default: bottom]"),
]
Weighting = Annotated[
    str | None,
    typer.Option(
        help="Source of word frequencies, by which frequent words count less: vocabulary, corpus "
        r"or none. \[default: vocabulary]"
    ),
]
Isotropy = Annotated[
    str | None,
    typer.Option(
        help="How to remove what all vectors share: whiten, directions, mean or none. "
        r"\[default: whiten]"
    ),
]
Remove = Annotated[
    list[str] | None,
    typer.Option(
        "--remove",
        help="Delete from the index what came from this file or folder; may be repeated.",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first row that is unreadable.")]


def index(
    paths: Paths = None,
    out: Out = None,
    store: StoreAt = None,
    text: Text = None,
    id_column: Id = None,
    meta: Meta = None,
    model: ModelName = None,
    passages: Unit = None,
    max_words: MaxWords = None,
    language: Language = None,
    layer: Layer = None,
    weighting: Weighting = None,
    isotropy: Isotropy = None,
    remove: Remove = None,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Create a search index of files, or update an existing one.

    Only new and changed documents are embedded, and documents that are gone are deleted. Run the
    same command again to resume an interrupted run.
    """
    from relmo.search.documents import BadRow, TableColumns
    from relmo.search.store import without_password
    from relmo.search.sync import index_files, remove_files

    if (out is None) == (store is None):
        raise ConfigError("choose where to store the index: --out INDEX or --store postgresql://…")
    where = str(out) if out is not None else str(store)
    if store is not None and "://" not in store:
        raise ConfigError(f"--store takes an address, postgresql://…; for a file: --out {store}")
    if bool(paths) == bool(remove):
        raise ConfigError("give files or folders to index, or --remove PATH to delete")
    if remove:
        removed = remove_files(where, remove)
        say({"index": without_password(where), **dataclasses.asdict(removed)}, as_json)
        return
    chosen: dict[str, Any] = {
        "model": model,
        "passages": passages,
        "max_words": max_words,
        "language": language,
        "layer": None if layer is None else parse_layers(layer),
        "weighting": weighting,
        "isotropy": isotropy,
    }
    bad = 0

    def on_bad(row: BadRow) -> None:
        nonlocal bad
        bad += 1
        if bad <= SHOWN_BAD_ROWS and not strict:
            note(str(row))

    report = index_files(
        where,
        paths or [],
        columns=TableColumns(
            text=tuple(text or ["text"]), id=id_column, meta=None if meta is None else tuple(meta)
        ),
        settings={name: value for name, value in chosen.items() if value is not None},
        strict=strict,
        on_bad=on_bad,
        show_progress_bar=True,
    )
    if bad > SHOWN_BAD_ROWS:
        note(f"and {bad - SHOWN_BAD_ROWS:,} more bad rows")
    say({"index": without_password(where), **dataclasses.asdict(report)}, as_json)
