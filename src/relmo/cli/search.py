"""Search and serving: relmo index, search and serve."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from relmo.cli.shared import DEFAULT_MODEL, AsJson, Model, Precision, count_text, note, say
from relmo.errors import ConfigError, need_extra
from relmo.layers import parse_layers
from relmo.progress import duration, printable

if TYPE_CHECKING:
    from relmo.search import Hit, SemanticIndex
    from relmo.search.index import Ranking
    from relmo.search.spelling import Corrected
    from relmo.search.sync import SyncReport

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
NewIndexModel = Annotated[
    str | None,
    typer.Option(
        "--model", help=r"Trained encoder or ELMo: name or folder. \[default: relmo-en-search]"
    ),
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
Rebuild = Annotated[
    bool,
    typer.Option(
        "--rebuild",
        help="Instead of paths: build the index anew from the passages that it contains, for "
        "example with the model of a newer relmo.",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first row that is unreadable.")]
MaxMegabytes = Annotated[
    int,
    typer.Option(min=1, max=2000, help="Longer text files and table rows are skipped and listed."),
]


def index(
    paths: Paths = None,
    out: Out = None,
    store: StoreAt = None,
    text: Text = None,
    id_column: Id = None,
    meta: Meta = None,
    model: NewIndexModel = None,
    passages: Unit = None,
    max_words: MaxWords = None,
    language: Language = None,
    layer: Layer = None,
    weighting: Weighting = None,
    isotropy: Isotropy = None,
    remove: Remove = None,
    rebuild: Rebuild = False,
    strict: Strict = False,
    max_megabytes: MaxMegabytes = 50,
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
    if rebuild:
        if paths or remove:
            raise ConfigError("--rebuild takes the passages of the index itself; give no PATH")
        _rebuild(where, model, as_json)
        return
    if bool(paths) == bool(remove):
        raise ConfigError("give files or folders to index, or --remove PATH to delete")
    if remove:
        removed = remove_files(where, remove)
        _say_index(without_password(where), removed, as_json)
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
        if bad <= SHOWN_BAD_ROWS:
            note(str(row))

    columns = TableColumns(
        text=tuple(text or ["text"]), id=id_column, meta=None if meta is None else tuple(meta)
    )
    report = index_files(
        where,
        paths or [],
        columns=columns,
        settings={name: value for name, value in chosen.items() if value is not None},
        strict=strict,
        on_bad=on_bad,
        max_bytes=max_megabytes * 10**6,
        show_progress_bar=True,
    )
    if bad > SHOWN_BAD_ROWS:
        note(f"and {bad - SHOWN_BAD_ROWS:,} more bad rows")
    _say_index(without_password(where), report, as_json)


def _rebuild(where: str, model: str | None, as_json: bool) -> None:
    """Build an index anew, and say how long it took."""
    from relmo.search.rebuild import rebuild_index

    begun = time.monotonic()
    settings = rebuild_index(where, model=model, show_progress_bar=True)
    seconds = round(time.monotonic() - begun, 1)
    rows = [["index", where], ["model", settings.model], ["time", duration(seconds)]]
    found = {"index": where, "model": settings.model, "width": settings.width, "seconds": seconds}
    say(found, as_json, rows)


def _say_index(where: str, report: SyncReport, as_json: bool) -> None:
    done = ("embedded", "unchanged", "deleted", "empty")
    counts = {what: getattr(report, what) for what in done}
    documents = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    rows = [["index", where], ["documents", documents or "none"]]
    if report.bad or report.skipped:
        left_out = f"{count_text(report.bad, 'row')}, {count_text(report.skipped, 'path')}"
        rows.append(["left out", left_out])
    rows += [
        ["passages", f"{report.passages:,} in the index"],
        ["time", duration(report.seconds)],
        ["next", f'{shlex.join(["relmo", "search", where])} "QUERY"'],
    ]
    say({"index": where, **dataclasses.asdict(report)}, as_json, rows)


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
By = Annotated[
    str,
    typer.Option(
        "--by",
        metavar="hybrid|vectors|words",
        help="Rank by words and vectors together, by vectors alone, or by words alone (BM25).",
    ),
]
Hybrid = Annotated[
    bool, typer.Option("--hybrid", help="The same as --by hybrid, as in earlier versions.")
]
Documents = Annotated[
    bool, typer.Option("--documents", help="Show only the best passage of each document.")
]
Copies = Annotated[bool, typer.Option("--copies", help="Also show near-copies of better hits.")]
Conditions = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        help="Condition on metadata, for example year>=1950 or lang=en; may be repeated.",
    ),
]
IndexModel = Annotated[
    str | None,
    typer.Option(
        "--model", help=r"Model name or folder. \[default: the model that the index was built with]"
    ),
]
Explain = Annotated[
    bool, typer.Option("--explain", help="With --json: add why each hit was found.")
]
AsTyped = Annotated[
    bool,
    typer.Option("--as-typed", help="Search for the query as it is: correct no typing errors."),
]
HitsAsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per query.")]


def search(
    index: At,
    query: Query,
    count: Count = 10,
    by: By = "hybrid",
    hybrid: Hybrid = False,
    documents: Documents = False,
    copies: Copies = False,
    where: Conditions = None,
    model: IndexModel = None,
    as_json: HitsAsJson = False,
    explain: Explain = False,
    as_typed: AsTyped = False,
) -> None:
    """Search an index by words and meaning.

    Prints score, document, line and text of each hit; on a terminal also why it was found: its best
    sentence, words of the query in it, and how much of the score comes from words and from meaning.
    """
    from relmo.search import SemanticIndex
    from relmo.search.filters import parse_where
    from relmo.search.index import choose_ranking
    from relmo.search.models import open_model

    asked, ranking = parse_where(where or []), choose_ranking(by)
    if hybrid and ranking != "hybrid":
        raise ConfigError(f"--hybrid means --by hybrid; leave it out for --by {by}")
    if explain and not as_json:
        raise ConfigError("--explain adds to --json; on a terminal hits are explained anyway")
    if query != "-" and not query.strip():
        raise ConfigError("the query is empty")
    chosen = None if model is None else open_model(model)
    with SemanticIndex.open(index, elmo=chosen) as opened:
        if opened.settings.is_old:
            note(_advise_to_rebuild(index, opened))
        queries = (line.rstrip("\n") for line in sys.stdin) if query == "-" else [query]
        for typed in queries:
            each = opened.read_query(typed, correct=not as_typed)
            hits = opened.search(
                each, count, where=asked, by=ranking, by_document=documents, copies=copies
            )
            if as_json:
                _say_hits_as_json(opened, typed, each, hits, explain)
                continue
            if query == "-":
                typer.echo(f"# {printable(typed)}")
            if each.text != typed:
                said = f"(--as-typed searches for {printable(typed)})"
                note(f"searched for: {printable(each.text)}  {said}")
            if not hits:
                note(_explain_no_hits(opened, asked, ranking))
            _say_hits(opened, each, hits)


def _advise_to_rebuild(where: str, index: SemanticIndex) -> str:
    """What an index of an earlier version is, and how it becomes one of today."""
    again = "index the files again, into another relmo_index"
    if "://" not in where:
        again = f"{shlex.join(['relmo', 'index', '--rebuild', '--out', where])} builds it anew"
    return (
        f"this index was made by an earlier relmo, with {index.settings.model}; new ones rank "
        f"better: {again}"
    )


def _say_hits_as_json(
    index: SemanticIndex, typed: str, query: Corrected, hits: Sequence[Hit], is_explained: bool
) -> None:
    """Print the hits of a query as one object; `query` is what was searched for."""
    found = [hit.to_dict() for hit in hits]
    for values, why in zip(found, index.explain(query, hits) if is_explained else (), strict=False):
        parts = {"words": why.by_words, "meaning": why.by_meaning, "spans": why.words}
        values.update(sentence=why.sentence, why=parts)
    corrected = {} if query.text == typed else {"corrected": query.text}
    typer.echo(json.dumps({"query": typed, **corrected, "hits": found}, ensure_ascii=False))


def _say_hits(index: SemanticIndex, query: Corrected, hits: Sequence[Hit]) -> None:
    """Print hits: with their reasons on a terminal, else one line each."""
    from relmo.cli.hits import as_line, needs_cutting, show

    if _is_terminal():
        console = Console(highlight=False)
        for hit, why in zip(hits, index.explain(query, hits), strict=True):
            show(hit, why, console)
        return
    cut = [hit for hit in hits if needs_cutting(hit)]  # others are shown whole: nothing to choose
    reasons = iter(index.explain(query, cut))
    for hit in hits:
        typer.echo(as_line(hit, next(reasons) if needs_cutting(hit) else None))


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _explain_no_hits(index: SemanticIndex, asked: dict[str, Any], ranking: Ranking) -> str:
    """A message that names a filter key which no document has."""
    keys = index.store.meta_keys()
    unknown = [key for key in asked if key not in keys]
    if not unknown and ranking == "words":
        also = " and meets all conditions" if asked else ""
        return f"nothing found: no passage contains a word of the query{also}"
    if not asked:
        return "nothing found"
    if not unknown:
        kinds = "numbers compare with numbers only, and text with text"
        return f"nothing found: no document meets all conditions; {kinds}"
    known = printable(", ".join(keys)) or "none"
    return f"nothing found: no document has {unknown[0]!r}; known keys: {known}"


KEY = "RELMO_API_KEY"

IndexPath = Annotated[
    str | None,
    typer.Option("--index", metavar="INDEX", help="Index for /search (see relmo index)."),
]
Tasks = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        metavar="NAME|RUN",
        help="Task model or folder of a run, served at /predict/NAME; repeatable.",
    ),
]
Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all interfaces.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 picks a free one.")]
ApiKey = Annotated[bool, typer.Option("--api-key", help=f"Require an API key, taken from {KEY}.")]
AllowHost = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="Also answer to this host name; repeatable."),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=NUMBER",
        envvar="RELMO_LIMITS",
        help="Change a limit, e.g. texts=64; repeatable.",
    ),
]


def serve(
    model: Model = DEFAULT_MODEL,
    index: IndexPath = None,
    tasks: Tasks = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    api_key: ApiKey = False,
    precision: Precision = "float32",
    allow_host: AllowHost = None,
    changes: Changes = None,
) -> None:
    """Serve a model over HTTP: an OpenAI-compatible API, tasks, search and a web page.

    If the environment variable RELMO_API_KEY is set, every request must send that key, except for
    /health, /ready and the page itself. Logs go to standard error as JSON lines and never contain
    the text of requests.
    """
    need_extra("serve")
    from relmo.elmo import Elmo
    from relmo.search import SemanticIndex
    from relmo.serve.access import Access, allowed_hosts, is_loopback
    from relmo.serve.app import bind, create_app, run_server
    from relmo.serve.limits import Limits
    from relmo.serve.monitoring import configure_logging, log
    from relmo.serve.task_models import load_tasks

    limits = Limits().changed(changes or [])
    key = os.environ.get(KEY) or None
    if api_key and key is None:
        raise ConfigError(f"--api-key: expected a key in {KEY}, which is empty or not set")
    access = Access(api_key=key, hosts=allowed_hosts(host, allow_host or []))
    with ExitStack() as stack:
        listening = stack.enter_context(closing(bind(host, port)))  # before loading a model
        elmo = Elmo.from_pretrained(model, precision=precision)  # type: ignore[arg-type]
        if key is None and not is_loopback(host):
            note(f"anyone who can reach {host} can use this server; set {KEY} to require a key")
        opened = None
        if index is not None:
            opened = stack.enter_context(SemanticIndex.open(index, elmo=elmo))
        loaded = load_tasks(tasks or [], elmo, precision)  # type: ignore[arg-type]
        app = create_app(elmo, index=opened, tasks=loaded, limits=limits, access=access)
        configure_logging()
        address, number = listening.getsockname()[:2]
        name, shown = elmo.config.name, f"[{address}]" if ":" in address else address
        note(f"serving {name} at http://{shown}:{number} (Ctrl-C stops it)")
        for each in loaded:
            note(f"{each.predictor.name} ({each.task}) at /predict/{each.predictor.name}")
        served = [each.predictor.name for each in loaded]
        log("start", model=name, tasks=served, host=address, port=number, key=key is not None)
        run_server(app, listening)
        log("stop")
