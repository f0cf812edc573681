"""Who may send requests: API key and host names; and bodies, which come and go in bounded pieces.

`AccessControl` checks host, key and body before a request reaches its route (400, 401, 408, 413,
429), and sends a large response as fast as its client reads. The numbers are in limits.py.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hmac
import ipaddress
import re
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relmo.config import Settings
from relmo.errors import ConfigError
from relmo.serve.errors import ApiError
from relmo.serve.limits import BYTES_PER_BODY_BYTE, Limits, Memory, Reservation, check_shape

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
PUBLIC_PATHS = ("/", "/health", "/ready")
"""Paths that need no key: health checks, and the page, which asks for the key itself."""
PIECE_BYTES = 2**18
"""Size of the parts of a response; the next is written when the client has taken the last."""
RESERVATION = "relmo_memory"
"""Key of a request's scope under which routes find its `Reservation`."""


@dataclass(frozen=True, kw_only=True)
class Access(Settings):
    """Who may send requests; the defaults let anyone in under any host name."""

    api_key: str | None = dataclasses.field(default=None, repr=False)
    """Expected as `Authorization: Bearer KEY`; None requires no key."""
    hosts: tuple[str, ...] = ()
    """Host names the server answers to; empty for any."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.api_key is not None and not self.api_key.strip():
            raise ConfigError("the API key is empty; set RELMO_API_KEY to a long random string")
        if self.api_key is not None and not re.fullmatch("[!-~]+", self.api_key):
            raise ConfigError(
                "the API key contains white space, a newline or a non-ASCII character, so that no "
                "header can match it; set RELMO_API_KEY to visible ASCII characters only (a file "
                "often ends with a newline)"
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    with suppress(ValueError):  # a name
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return host == "localhost"


def allowed_hosts(host: str, more: Sequence[str] = ()) -> tuple[str, ...]:
    """Host names to accept in requests, for a server bound to this address.

    On loopback only loopback names are accepted. Otherwise any web page could read the server's
    answers through a domain that resolves to 127.0.0.1 (DNS rebinding).
    """
    return tuple(dict.fromkeys([*LOOPBACK_NAMES, host, *more] if is_loopback(host) else more))


class AccessControl:
    """Middleware that rejects a request before its route runs, or passes on its whole body."""

    def __init__(self, app: ASGIApp, access: Access, limits: Limits, memory: Memory) -> None:
        self.app, self.access, self.limits, self.memory = app, access, limits, memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "websocket":
            return  # the server has none
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        with self.memory.request() as reservation:
            scope[RESERVATION] = reservation
            try:
                headers = Headers(scope=scope)
                check_host(headers.get("host", ""), self.access.hosts)
                if scope["path"] not in PUBLIC_PATHS and not scope["path"].startswith("/static/"):
                    check_key(headers.get("authorization", ""), self.access.api_key)
                body = await self._read_body(headers, receive, reservation)
                check_shape(body or b"", self.limits)
            except ApiError as error:
                error.headers["connection"] = "close"  # do not wait for the rest of the body
                await error.response()(scope, receive, send)
                return
            if body is not None:
                work = self.app(scope, _replay(body, receive), _in_pieces(send))
                await _until_gone(work, receive)

    async def _read_body(
        self, headers: Headers, receive: Receive, reservation: Reservation
    ) -> bytes | None:
        """Read the whole body; None if the client disconnects before its end."""
        limit, seconds = self.limits.body_bytes, self.limits.body_seconds
        text = f"the body exceeds the limit of {limit:,} bytes"
        too_large = ApiError(413, text, code="body_too_large")
        declared = headers.get("content-length", "0")
        if declared.isdecimal() and int(declared[:20]) > limit:
            raise too_large
        body = bytearray()
        message: Message = {"more_body": True}
        try:
            async with asyncio.timeout(seconds):
                while message.get("more_body", False):
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    piece = message.get("body", b"")
                    body += piece
                    if len(body) > limit:
                        raise too_large
                    reservation.add(BYTES_PER_BODY_BYTE * len(piece))
        except TimeoutError:
            text = f"the body did not arrive within {seconds} s"
            raise ApiError(408, text, code="body_timeout") from None
        return bytes(body)


def check_host(host: str, allowed: Iterable[str]) -> None:
    """Raise ApiError unless the server answers to this host name."""
    name = host.lower() if host.endswith("]") else host.lower().rpartition(":")[0] or host.lower()
    if allowed and name.strip("[]") not in {each.lower().strip("[]") for each in allowed}:
        text = "unknown Host header; start the server with --allow-host NAME to allow it"
        raise ApiError(400, text, code="unknown_host")


def check_key(authorization: str, key: str | None) -> None:
    """Raise ApiError unless the header carries the right key; compares in constant time."""
    if key is None:
        return
    scheme, _, sent = authorization.partition(" ")
    is_right = hmac.compare_digest(sent.strip().encode(), key.encode())
    if scheme.lower() != "bearer" or not is_right:
        text = "wrong API key" if authorization else "missing API key"
        text += "; send the header 'Authorization: Bearer KEY'"
        raise ApiError(401, text, code="invalid_api_key", headers={"www-authenticate": "Bearer"})


async def _until_gone(work: Awaitable[None], receive: Receive) -> None:
    """Do the work unless the client closes its connection: then its place in the queue is free."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(receive())
    try:
        # after a whole body, the only message left is that the client is gone
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))
        if not working.cancelled():
            working.result()
    finally:
        working.cancel()
        leaving.cancel()


def _replay(body: bytes, receive: Receive) -> Receive:
    """Give the body in one message, then whatever the client sends next."""
    first: Iterator[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def replay() -> Message:
        return next(first, None) or await receive()

    return replay


def _in_pieces(send: Send) -> Send:
    """Write large bodies piece by piece; uvicorn would buffer what the client has not read."""

    async def send_pieces(message: Message) -> None:
        body = memoryview(message.get("body", b""))
        while len(body) > PIECE_BYTES:
            piece, body = body[:PIECE_BYTES], body[PIECE_BYTES:]
            await send({**message, "body": bytes(piece), "more_body": True})
        await send(message if "body" not in message else {**message, "body": bytes(body)})

    return send_pieces
