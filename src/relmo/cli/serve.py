"""relmo serve: vectors over HTTP."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from typing import Annotated

import typer

from relmo.cli.options import DEFAULT_MODEL, Model
from relmo.cli.output import note
from relmo.errors import ConfigError, need_extra

KEY = "RELMO_API_KEY"

IndexPath = Annotated[
    str | None, typer.Option("--index", help="Index that /search looks in (relmo index).")
]
Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")]
ApiKey = Annotated[bool, typer.Option("--api-key", help=f"Refuse to start without a key in {KEY}.")]
Precision = Annotated[str, typer.Option(help="float32 (exact), bfloat16, int8 or auto.")]
AllowHost = Annotated[
    list[str] | None, typer.Option("--allow-host", help="A further name the server goes by.")
]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=NUMBER", help="Change a limit.")
]


def serve(
    model: Model = DEFAULT_MODEL,
    index: IndexPath = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    api_key: ApiKey = False,
    precision: Precision = "float32",
    allow_host: AllowHost = None,
    changes: Changes = None,
) -> None:
    """Serve a model over HTTP: OpenAI's /v1/embeddings, vectors of tokens, search, a page.

    A key in the environment variable RELMO_API_KEY is asked of every request but /health, /ready
    and the page. Logs go to standard error, one JSON object a line, without any text.
    """
    need_extra("serve")
    from relmo.elmo import Elmo
    from relmo.serve.app import create_app
    from relmo.serve.logs import log, start_logs
    from relmo.serve.run import bind
    from relmo.serve.run import serve as run
    from relmo.serve.settings import Access, Limits, hosts_for, is_loopback
    from relmo.serve.shelf import Shelf

    limits = Limits().changed(changes or [])
    key = os.environ.get(KEY) or None
    if api_key and key is None:
        raise ConfigError(f"--api-key needs a key in {KEY}, which is empty or not set")
    access = Access(api_key=key, hosts=hosts_for(host, allow_host or []))
    with ExitStack() as stack:
        listening = stack.enter_context(closing(bind(host, port)))  # it may be taken: look first
        elmo = Elmo.from_pretrained(model, precision=precision)  # type: ignore[arg-type]
        if key is None and not is_loopback(host):
            note(f"anyone who reaches {host} may ask; set {KEY} to ask for a key")
        shelf = None
        if index is not None:
            shelf = stack.enter_context(closing(Shelf.open(index, elmo)))
        app = create_app(elmo, index=shelf, limits=limits, access=access)
        start_logs()
        address, number = listening.getsockname()[:2]
        log("start", model=elmo.config.name, host=address, port=number, key=key is not None)
        note(f"http://{f'[{address}]' if ':' in address else address}:{number}")
        run(app, listening)
        log("stop")
