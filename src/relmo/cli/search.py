"""relmo search: the passages of an index that mean what is asked."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relmo.cli.output import note
from relmo.errors import ConfigError

if TYPE_CHECKING:
    from relmo.search import SemanticIndex

At = Annotated[str, typer.Argument(metavar="INDEX", help="An index file, or postgresql://….")]
Query = Annotated[
    str, typer.Argument(metavar="QUERY|-", help="What is sought; - reads one query per line.")
]
Count = Annotated[int, typer.Option("-k", "--count", min=1, help="Hits at most.")]
Hybrid = Annotated[bool, typer.Option("--hybrid", help="Rank by the query's words too (BM25).")]
Documents = Annotated[
    bool, typer.Option("--documents", help="The best passage of each document alone.")
]
Conditions = Annotated[
    list[str] | None,
    typer.Option("--where", help="Condition on metadata: year>=1950, lang=en; may be repeated."),
]
ModelName = Annotated[str | None, typer.Option("--model", help="Where the index's model lies.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per query.")]


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
    """Search an index by meaning."""
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
                note(_nothing(opened, asked))
            for hit in hits:
                shown = " ".join(hit.text.split())
                shown = shown if len(shown) <= 200 else shown[:199] + "…"
                typer.echo(f"{hit.score:.4f}  {hit.document}:{hit.line}  {shown}")


def _nothing(index: SemanticIndex, asked: dict[str, Any]) -> str:
    """Why there may be no hit."""
    there = index.store.meta_keys()
    for key in asked:
        if key not in there:
            return f"nothing found: no document has {key!r}; there are {', '.join(there) or 'none'}"
    return "nothing found"
