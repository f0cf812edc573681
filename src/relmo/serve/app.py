"""The server as an ASGI app, and running it with uvicorn.

    app = create_app(Elmo.from_pretrained("relmo-en-small"))    # for any ASGI server, or a test
    run_server(app, bind("127.0.0.1", 8000))                    # what `relmo serve` does

A request passes connections.py (number, time), monitoring.py (log, metrics), access.py (host, key,
body), routes.py, service.py (tokens) and batcher.py (one thread, batches across requests). The
numbers that bound it on its way are in limits.py.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from signal import SIGINT, SIGTERM
from typing import Any

import uvicorn
from fastapi import FastAPI

from relmo import __version__
from relmo.elmo import Elmo
from relmo.errors import ConfigError
from relmo.search import SemanticIndex
from relmo.serve.access import Access, AccessControl
from relmo.serve.connections import connection_class
from relmo.serve.errors import add_error_handlers
from relmo.serve.limits import Limits, Memory
from relmo.serve.monitoring import Metrics, Monitoring
from relmo.serve.routes import (
    openai_routes,
    page_routes,
    relmo_routes,
    server_routes,
    task_routes,
)
from relmo.serve.schemas import DEFAULT_RESULTS, resolve_bounds
from relmo.serve.service import Service, warm_up
from relmo.serve.task_models import LoadedTask, TaskModel, check_names

BACKLOG = 2048


def create_app(
    elmo: Elmo,
    *,
    index: SemanticIndex | None = None,
    tasks: Sequence[LoadedTask] = (),
    limits: Limits | None = None,
    access: Access | None = None,
) -> FastAPI:
    """Create the server for one model and any number of task models.

    Its thread starts now and ends with the app's lifespan.

    Args:
        elmo: the model; nothing else may use it meanwhile.
        index: searched by /search, opened with the same model; without it the route answers 404.
        tasks: task models, each served at /predict/NAME under its own name; see
            `relmo.serve.task_models.load_tasks`.
        limits: on the size of requests and of the queue.
        access: API key and host names; by default anyone under any host name.
    """
    limits, metrics = limits or Limits(), Metrics()
    check_names([loaded.predictor.name for loaded in tasks])
    warm_up(elmo, [loaded.predictor for loaded in tasks])
    service = Service(elmo, limits, metrics, index)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="relmo",
        summary="Context-aware word vectors over HTTP.",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    app.include_router(openai_routes(service))
    app.include_router(relmo_routes(service))
    app.include_router(task_routes([TaskModel(loaded, service) for loaded in tasks]))
    app.include_router(server_routes(app, service, metrics))
    app.include_router(page_routes(app, service))
    add_error_handlers(app)
    add_bounds(app, service)
    app.state.memory = memory = Memory(limits.memory_bytes)
    app.add_middleware(AccessControl, access=access or Access(), limits=limits, memory=memory)
    app.add_middleware(Monitoring, metrics=metrics)  # the last one added is the outermost
    return app


def add_bounds(app: FastAPI, service: Service) -> None:
    """Describe the limits of this server and its model in the API's schema."""
    describe = app.openapi
    bounds = {
        **dataclasses.asdict(service.limits),
        "default_results": min(DEFAULT_RESULTS, service.limits.results),
        "top_layer": service.num_layers - 1,
        "models": [service.name],
        "widths": [service.width],
    }

    @functools.cache
    def openapi() -> dict[str, Any]:
        found: dict[str, Any] = resolve_bounds(describe(), bounds)
        return found

    app.openapi = openapi  # type: ignore[method-assign]


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to an address; port 0 picks a free one. Raises ConfigError if it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another --port"
        ) from error
    listening.set_inheritable(False)
    return listening


def make_server(app: FastAPI) -> uvicorn.Server:
    """Uvicorn with our limits on connections, and without its access log and WebSockets."""
    limits: Limits = app.state.service.limits
    config = uvicorn.Config(
        app,
        http=connection_class(limits),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=limits.head_bytes,
        timeout_keep_alive=limits.idle_seconds,
        timeout_graceful_shutdown=limits.stop_seconds,
    )
    return uvicorn.Server(config)


def run_server(app: FastAPI, listening: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT, and then for at most `stop_seconds`."""
    server = make_server(app)
    # after stopping, uvicorn raises the signal again; that must not kill the process half-way
    before = {kind: signal.signal(kind, lambda *_: None) for kind in (SIGTERM, SIGINT)}
    try:
        server.run(sockets=[listening])
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
