"""Who may come in, and with how much: Host, API key, size of the body; before anything is read."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relmo.serve.problems import Refusal
from relmo.serve.settings import Access, Limits

OPEN = ("/", "/health", "/ready")
"""Paths that need no key: probes, and the page, which asks for the key itself."""
OPEN_BELOW = "/static/"


class Gone(Exception):
    """The client left before its request was whole."""


class Door:
    """Refuses with 400, 401, 408 or 413 in OpenAI's shape; else hands the whole body on."""

    def __init__(self, app: ASGIApp, access: Access, limits: Limits) -> None:
        self.app, self.access, self.limits = app, access, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request."""
        if scope["type"] == "websocket":
            return  # there are none
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            headers = Headers(scope=scope)
            check_host(headers.get("host", ""), self.access.hosts)
            if not is_open(scope["path"]):
                check_key(headers.get("authorization", ""), self.access.api_key)
            body = await self._body(headers, receive)
        except Refusal as refusal:
            refusal.headers["connection"] = "close"  # the rest of the body is not waited for
            await refusal.response()(scope, receive, send)
        except Gone:
            return
        else:
            await self.app(scope, _replay(body, receive), send)

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        limit = self.limits.body_bytes
        declared = headers.get("content-length", "0")
        if declared.isdecimal() and int(declared[:20]) > limit:
            raise too_large(limit)
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                return await _read_body(receive, limit)
        except TimeoutError:
            text = f"the body did not arrive within {self.limits.body_seconds} s"
            raise Refusal(408, text, code="body_timeout") from None


def check_host(host: str, known: Iterable[str]) -> None:
    """Raise Refusal unless the server goes by this name."""
    name = host.lower() if host.endswith("]") else host.lower().rpartition(":")[0] or host.lower()
    if known and name.strip("[]") not in {each.lower().strip("[]") for each in known}:
        text = "this server does not go by that Host; start it with --allow-host NAME to allow it"
        raise Refusal(400, text, code="unknown_host")


def check_key(authorization: str, key: str | None) -> None:
    """Raise Refusal unless the right key was sent, in the same time whatever was sent."""
    if key is None:
        return
    scheme, _, sent = authorization.partition(" ")
    is_right = hmac.compare_digest(sent.strip().encode(), key.encode())
    if scheme.lower() != "bearer" or not is_right:
        text = "an API key is needed: send the header 'Authorization: Bearer KEY'"
        if authorization:
            text = "the API key is not right"
        raise Refusal(401, text, code="invalid_api_key", headers={"www-authenticate": "Bearer"})


def is_open(path: str) -> bool:
    """Whether a path is for everyone."""
    return path in OPEN or path.startswith(OPEN_BELOW)


def too_large(limit: int) -> Refusal:
    """The refusal of a large body."""
    text = f"the body is larger than {limit:,} bytes; send less at once"
    return Refusal(413, text, code="body_too_large")


async def _read_body(receive: Receive, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise too_large(limit)
        if not message.get("more_body", False):
            return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body in one piece, then whatever the client does next."""
    is_given = False

    async def replay() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
