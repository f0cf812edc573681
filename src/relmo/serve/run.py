"""Run the server until it is asked to stop, then finish what was accepted."""

from __future__ import annotations

import signal
import socket
from signal import SIGINT, SIGTERM

import uvicorn
from fastapi import FastAPI

from relmo.errors import ConfigError

BACKLOG = 2048
CONNECTIONS = 1024
"""Open at once; beyond that uvicorn answers 503."""


def make_server(app: FastAPI, host: str, port: int) -> uvicorn.Server:
    """Uvicorn as we use it: no access log of its own, no bound on the time to finish."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=30,
    )
    return uvicorn.Server(config)


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes a free one. Raises ConfigError where it cannot."""
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


def serve(app: FastAPI, listening: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT; gives back when every accepted request is answered."""
    host, port = listening.getsockname()[:2]
    server = make_server(app, host, port)
    # uvicorn raises the signal anew when it has stopped; that shall not end the process halfway
    before = {kind: signal.signal(kind, lambda *_: None) for kind in (SIGTERM, SIGINT)}
    try:
        server.run(sockets=[listening])
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
