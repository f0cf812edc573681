"""relmo index: files -> an index to search."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from relmo.cli.options import AsJson
from relmo.cli.output import note, say
from relmo.errors import ConfigError

SHOWN = 20
"""Bad rows that are named; the others are counted."""

Paths = Annotated[
    list[str] | None,
    typer.Argument(metavar="PATH…", help="Files and folders: .txt .md .csv .tsv .xlsx .jsonl."),
]
Out = Annotated[Path | None, typer.Option(help="The index, one file; brought up to date if there.")]
StoreAt = Annotated[str | None, typer.Option("--store", help="postgresql://…, in place of --out.")]
Text = Annotated[list[str] | None, typer.Option("--text", help="Text column; may be repeated.")]
Id = Annotated[str | None, typer.Option("--id", help="Column that names rows.")]
Meta = Annotated[
    list[str] | None, typer.Option("--meta", help="Column to filter on; all others unless given.")
]
ModelName = Annotated[str | None, typer.Option("--model", help="Model; relmo-en-small.")]
Unit = Annotated[
    str | None, typer.Option("--passages", help="auto, paragraph, sentence, line or window.")
]
MaxWords = Annotated[int | None, typer.Option(help="Words of a passage at most.")]
Language = Annotated[str | None, typer.Option(help="Stemmer for --hybrid: english, …, or none.")]
Layer = Annotated[str | None, typer.Option(help="mean, bottom, top or a layer's number.")]
Weighting = Annotated[str | None, typer.Option(help="Of words: vocabulary, corpus or none.")]
Isotropy = Annotated[str | None, typer.Option(help="whiten, directions, mean or none.")]
Remove = Annotated[
    list[str] | None,
    typer.Option("--remove", help="Take out what came from this path; may be repeated."),
]
Strict = Annotated[bool, typer.Option("--strict", help="End at the first bad row.")]


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
    """Index files, or bring an index up to date with them; started again, it goes on."""
    from relmo.search.addresses import without_password
    from relmo.search.documents import BadRow
    from relmo.search.sync import index_files, remove_files
    from relmo.search.tables import Columns

    if (out is None) == (store is None):
        raise ConfigError("say where the index goes: --out INDEX or --store postgresql://…")
    where = str(out) if out is not None else str(store)
    if store is not None and "://" not in store:
        raise ConfigError(f"--store takes an address, postgresql://…; for a file: --out {store}")
    if bool(paths) == bool(remove):
        raise ConfigError("give files or folders to index, or --remove PATH to take out")
    if remove:
        removed = remove_files(where, remove)
        say({"index": without_password(where), **removed.to_dict()}, as_json)
        return
    chosen: dict[str, Any] = {
        "model": model,
        "passages": passages,
        "max_words": max_words,
        "language": language,
        "layer": int(layer) if layer is not None and layer.isdecimal() else layer,
        "weighting": weighting,
        "isotropy": isotropy,
    }
    bad = 0

    def on_bad(row: BadRow) -> None:
        nonlocal bad
        bad += 1
        if bad <= SHOWN and not strict:
            note(str(row))

    report = index_files(
        where,
        paths or [],
        columns=Columns(
            text=tuple(text or ["text"]), id=id_column, meta=None if meta is None else tuple(meta)
        ),
        settings={name: value for name, value in chosen.items() if value is not None},
        strict=strict,
        on_bad=on_bad,
        show_progress_bar=True,
    )
    if bad > SHOWN:
        note(f"and {bad - SHOWN:,} bad rows more")
    say({"index": without_password(where), **report.to_dict()}, as_json)
