"""JSON logs, Prometheus metrics, and the middleware that feeds both.

Logs are one JSON object per line on standard error and never contain a user's text: fields are
chosen one by one, and an exception is logged by its type and code locations, because its message
may quote the text.
"""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relmo.serve.errors import ApiError

LOGGER = logging.getLogger("relmo.serve")
CLIENT_CLOSED = 499
"""Status logged for a client that disconnected before the response, as nginx does."""
METHODS = frozenset(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


class JsonFormatter(logging.Formatter):
    """Writes a log record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Write time, level, event and fields."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": moment, "level": record.levelname.lower()}
        if hasattr(record, "fields"):
            line |= {"event": record.msg, **record.fields}
        else:  # uvicorn's own messages, which never contain bodies
            line |= {"event": "server", "message": record.getMessage()}
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = describe_exception(record.exc_info[1])
        return orjson.dumps(line, default=str).decode()


def log(event: str, level: int = logging.INFO, **fields: Any) -> None:  # noqa: ANN401 - JSON
    """Write one log line."""
    LOGGER.log(level, event, extra={"fields": fields})


def describe_exception(error: BaseException) -> dict[str, Any]:
    """Describe an exception without its message: type and code locations, innermost first."""
    steps = traceback.extract_tb(error.__traceback__)[::-1][:12]
    return {
        "type": type(error).__name__,
        "at": [f"{step.filename.rpartition('/')[2]}:{step.lineno}" for step in steps],
    }


def configure_logging() -> None:
    """Send our logs and uvicorn's to standard error. Only the command calls this."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("relmo.serve", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler] if name != "uvicorn.error" else []
        logger.propagate = name == "uvicorn.error"
        logger.setLevel(logging.INFO)


class Metrics:
    """Prometheus metrics of one server; a process may run several servers."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        common: dict[str, Any] = {"namespace": "relmo", "registry": self.registry}
        sizes, times = {**common, "buckets": SIZES}, {**common, "buckets": SECONDS}
        labels = ["method", "route", "status"]
        self._requests = Counter("requests", "Requests answered.", labels, **common)
        self._seconds = Histogram("request_seconds", "Time per request.", ["route"], **times)
        self._tokens = Counter("tokens", "Words read by the model.", **common)
        self._batch_tokens = Histogram("batch_tokens", "Words per batch.", **sizes)
        self._batch_requests = Histogram("batch_requests", "Requests per batch.", **sizes)
        self._batch_seconds = Histogram("batch_seconds", "Time per batch.", **times)
        self._queue_tokens = Gauge("queue_tokens", "Words not yet answered.", **common)
        self._queue_requests = Gauge("queue_requests", "Requests not yet answered.", **common)

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Record an answered request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def count_batch(self, requests: int, tokens: int, seconds: float) -> None:
        """Record a batch that the model has read."""
        self._tokens.inc(tokens)
        self._batch_tokens.observe(tokens)
        self._batch_requests.observe(requests)
        self._batch_seconds.observe(seconds)

    def watch_queue(self, tokens: Callable[[], int], requests: Callable[[], int]) -> None:
        """Read the queue's size from these functions whenever metrics are collected."""
        self._queue_tokens.set_function(tokens)
        self._queue_requests.set_function(requests)

    def text(self) -> bytes:
        """Write all metrics in Prometheus's text format."""
        return generate_latest(self.registry)


class Monitoring:
    """Outermost middleware: gives each request an id, logs and counts it.

    An unexpected exception becomes a 500 in the usual shape. Routes may add numbers to the log line
    through `scope["relmo"]`.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id, begin, status = uuid4().hex, time.perf_counter(), CLIENT_CLOSED
        scope["relmo"] = fields = {}

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except Exception as error:
            fields["error"] = describe_exception(error)
            if status == CLIENT_CLOSED:  # nothing has been sent yet
                text = f"internal error; the server's log has details under request {request_id}"
                response = ApiError(500, text, code="internal_error").response()
                await response(scope, receive, send_with_id)
        finally:
            seconds = time.perf_counter() - begin
            method = scope["method"] if scope["method"] in METHODS else "other"
            # the route's pattern, because the path itself may contain anything
            route = str(getattr(scope.get("route"), "path", "other"))
            self.metrics.count_request(method, route, status, seconds)
            level = logging.ERROR if status >= 500 or "error" in fields else logging.INFO
            log(
                "request", level, id=request_id, method=method, route=route, status=status,
                ms=round(seconds * 1000, 2), **fields,
            )  # fmt: skip
