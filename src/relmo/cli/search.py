"""relmo search: the passages of an index that are closest in meaning to a query."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relmo.cli.output import note
from relmo.errors import ConfigError

if TYPE_CHECKING:
    from relmo.search import SemanticIndex


At = Annotated[
    str, typer.Argument(metavar="INDEX", help="Index file or PostgreSQL address, postgresql://….")
]
Query = Annotated[
    str,
    typer.Argument(
        metavar="QUERY|-",
        help="Text to search for; - reads one query per line from standard input.",
    ),
]
Count = Annotated[int, typer.Option("-k", "--count", min=1, help="Maximum number of hits.")]
Hybrid = Annotated[
    bool, typer.Option("--hybrid", help="Also rank by the words of the query (BM25).")
]
Documents = Annotated[
    bool, typer.Option("--documents", help="Show only the best passage of each document.")
]
Conditions = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        help="Condition on metadata, for example year>=1950 or lang=en; may be repeated.",
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model", help=r"Model name or folder. \[default: the model that the index was built with]"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per query.")]


def search(
    index: At,
    query: Query,
    count: Count = 10,
    hybrid: Hybrid = False,
    documents: Documents = False,
    where: Conditions = None,
    model: ModelName = None,
    as_json: AsJson = False,
) -> None:
    """Search an index by meaning; prints score, document, line and text of each hit."""
    from relmo.elmo import Elmo
    from relmo.search import SemanticIndex
    from relmo.search.filters import parse_where

    asked = parse_where(where or [])
    if query != "-" and not query.strip():
        raise ConfigError("the query is empty")
    elmo = None if model is None else Elmo.from_pretrained(model)
    with SemanticIndex.open(index, elmo=elmo) as opened:
        queries = (line.rstrip("\n") for line in sys.stdin) if query == "-" else [query]
        for each in queries:
            hits = opened.search(each, count, where=asked, hybrid=hybrid, by_document=documents)
            if as_json:
                found = {"query": each, "hits": [hit.to_dict() for hit in hits]}
                typer.echo(json.dumps(found, ensure_ascii=False))
                continue
            if query == "-":
                typer.echo(f"# {each}")
            if not hits:
                note(_explain_no_hits(opened, asked))
            for hit in hits:
                shown = " ".join(hit.text.split())
                shown = shown if len(shown) <= 200 else shown[:199] + "…"
                typer.echo(f"{hit.score:.4f}  {hit.document}:{hit.line}  {shown}")


def _explain_no_hits(index: SemanticIndex, asked: dict[str, Any]) -> str:
    """A message that names a filter key which no document has."""
    keys = index.store.meta_keys()
    for key in asked:
        if key not in keys:
            return (
                f"nothing found: no document has {key!r}; known keys: {', '.join(keys) or 'none'}"
            )
    return "nothing found"
