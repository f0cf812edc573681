"""The outermost layer: every request gets a number, a log line and its place in the counters."""

from __future__ import annotations

import logging
import time
from uuid import uuid4

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relmo.serve.logs import describe, log
from relmo.serve.meters import Meters
from relmo.serve.problems import error_response

GONE = 499
"""Status that is logged for one who went away before the answer, as nginx does."""
METHODS = frozenset(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])


class Watch:
    """Logs and counts; turns what nobody expected into a 500 in the usual shape.

    Routes may put numbers for the log into `scope["relmo"]`.
    """

    def __init__(self, app: ASGIApp, meters: Meters) -> None:
        self.app, self.meters = app, meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        number, begin, status = uuid4().hex, time.perf_counter(), GONE
        scope["relmo"] = facts = {}

        async def send_numbered(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", number.encode())]
            await send(message)

        try:
            await self.app(scope, receive, send_numbered)
        except Exception as error:
            facts["error"] = describe(error)
            if status == GONE:  # nothing was sent
                text = f"the server failed; its log has the reason under request {number}"
                response = error_response(500, text, "internal_error")
                await response(scope, receive, send_numbered)
        finally:
            seconds = time.perf_counter() - begin
            method = scope["method"] if scope["method"] in METHODS else "other"
            route = _route(scope)
            self.meters.answered(method, route, status, seconds)
            level = logging.ERROR if status >= 500 or "error" in facts else logging.INFO
            milliseconds = round(seconds * 1000, 2)
            log(
                "request", level, id=number, method=method, route=route, status=status,
                ms=milliseconds, **facts,
            )  # fmt: skip


def _route(scope: Scope) -> str:
    """The pattern that the path fitted; the path itself may hold anything."""
    return str(getattr(scope.get("route"), "path", "other"))
