"""Connections: uvicorn's HTTP/1.1 protocol, with limits on number and on waiting for a client.

A connection is in one of these phases:

    head     the first line and headers of a request are awaited
    body     the body is awaited (access.py answers 408 when it is late)
    work     the server works on the request and expects nothing of the client
    write    the client does not read the response
    idle     between requests
    close    the last bytes are on their way

Each phase but `work` ends the connection after some seconds. If there are too many connections, a
new one replaces the one that has been in such a phase longest: clients that open connections and
leave them shut nobody out.
"""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Any, Literal

from uvicorn.protocols.http.h11_impl import H11Protocol

from relmo.serve.errors import ApiError
from relmo.serve.limits import RETRY_SECONDS, Limits

Phase = Literal["head", "body", "work", "write", "idle", "close"]


def connection_class(limits: Limits) -> type[Connection]:
    """The protocol for `uvicorn.Config(http=...)`, with these limits."""
    return type("LimitedConnection", (Connection,), {"limits": limits})


class Connection(H11Protocol):
    """One connection; `limits` is set by `connection_class`."""

    limits: Limits

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*args, **kwargs)
        self.phase: Phase = "work"
        self.since = 0.0
        self.peer: str | None = None
        self._timer: asyncio.TimerHandle | None = None

    # ── called by the event loop ────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for this connection, or refuse it."""
        super().connection_made(transport)
        self.peer = peer_of(self.client[0]) if self.client else None
        self._enter("head")
        if not self._make_room():
            self._refuse()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._enter("work")
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read in pieces, so that h11 never parses headers longer than `head_bytes`."""
        for start in range(0, len(data), self.limits.head_bytes):
            if self.transport.is_closing():  # the piece before was refused
                break
            super().data_received(data[start : start + self.limits.head_bytes])
        self._update("head")

    def pause_writing(self) -> None:
        """The client takes less than is written."""
        super().pause_writing()
        self._update("idle")

    def resume_writing(self) -> None:
        """The client has taken nearly everything written so far."""
        super().resume_writing()
        self._update("idle")

    # ── called by uvicorn ───────────────────────────────────────────────────────────────────

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._update("idle")

    def shutdown(self) -> None:
        """Close, or finish the request in progress."""
        super().shutdown()
        self._update(self.phase)

    # ── phases ──────────────────────────────────────────────────────────────────────────────

    def _update(self, between_requests: Phase) -> None:
        """Enter the phase that follows from the state of the request and of the transport."""
        if self.transport.is_closing():
            self._enter("close")
        elif self.flow.write_paused:
            self._enter("write")
        elif self.cycle is None or self.cycle.response_complete:
            self._enter(between_requests)
        else:
            self._enter("body" if self.cycle.more_body else "work")

    def _enter(self, phase: Phase) -> None:
        """Start the time of a phase, unless the connection is in it already."""
        if phase == self.phase:
            return
        self.phase, self.since = phase, self.loop.time()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        limits = self.limits
        seconds = {
            "head": limits.head_seconds,
            "body": limits.body_seconds + limits.write_seconds,  # after access.py
            "write": limits.write_seconds,
            "idle": limits.idle_seconds,
            "close": limits.write_seconds,
        }
        if phase != "work":  # abort: close would wait until the client has read everything
            self._timer = self.loop.call_later(seconds[phase], self.transport.abort)

    def _make_room(self) -> bool:
        """End connections that keep the server waiting until the limits hold; whether they do."""
        others = [
            each for each in self.connections
            if isinstance(each, Connection) and each is not self and not each.transport.is_closing()
        ]  # fmt: skip
        of_peer = [each for each in others if self.peer is not None and each.peer == self.peer]
        for group, limit in (
            (of_peer, self.limits.peer_connections),
            (others, self.limits.connections),
        ):
            if len(group) >= limit:
                waiting = [each for each in group if each.phase != "work"]
                if not waiting:
                    return False
                oldest = min(waiting, key=lambda each: each.since)
                oldest.transport.abort()
                if oldest in others:
                    others.remove(oldest)
        return True

    def _refuse(self) -> None:
        """Answer 503 without reading a request."""
        text = "too many connections are busy; retry later"
        body = ApiError(503, text, code="too_many_connections").response().body
        head = (
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nretry-after: {RETRY_SECONDS}\r\nconnection: close\r\n"
        )
        self.transport.write(f"{head}\r\n".encode() + bytes(body))
        self.transport.close()
        self._update("close")


def peer_of(host: str) -> str:
    """The address, or in IPv6 its /64 network, for which connections are counted."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:  # a name
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
