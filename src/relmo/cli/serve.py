"""relmo serve: vectors over HTTP."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from typing import Annotated

import typer

from relmo.cli.options import DEFAULT_MODEL, Model, Precision
from relmo.cli.output import note
from relmo.errors import ConfigError, need_extra

KEY = "RELMO_API_KEY"

IndexPath = Annotated[
    str | None,
    typer.Option("--index", metavar="INDEX", help="Index for /search (see relmo index)."),
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
    typer.Option("--set", metavar="NAME=NUMBER", help="Change a limit, e.g. texts=64; repeatable."),
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
    """Serve a model over HTTP: an OpenAI-compatible API, search and a web page.

    If the environment variable RELMO_API_KEY is set, every request must send that key, except for
    /health, /ready and the page itself. Logs go to standard error as JSON lines and never contain
    the text of requests.
    """
    need_extra("serve")
    from relmo.elmo import Elmo
    from relmo.search import SemanticIndex
    from relmo.serve.access import Access, Limits, allowed_hosts, is_loopback
    from relmo.serve.app import bind, create_app, run_server
    from relmo.serve.monitoring import configure_logging, log

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
        app = create_app(elmo, index=opened, limits=limits, access=access)
        configure_logging()
        address, number = listening.getsockname()[:2]
        log("start", model=elmo.config.name, host=address, port=number, key=key is not None)
        note(f"http://{f'[{address}]' if ':' in address else address}:{number}")
        run_server(app, listening)
        log("stop")
