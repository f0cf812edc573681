"""What a server allows: its limits, and who may ask it."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from relmo.config import check_keys
from relmo.errors import ConfigError

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on one request and on all that wait; `relmo serve --set name=value` changes one."""

    body_bytes: int = 4 * 2**20
    """Of a request's body; 413 beyond."""
    body_seconds: int = 30
    """For a body to arrive; 408 beyond."""
    texts: int = 2048
    """Texts or sentences of one request, as OpenAI has it; 422 beyond."""
    tokens: int = 65_536
    """Words of one request, all its texts together; 422 beyond."""
    sentence_tokens: int = 8192
    """Words of one sentence, which are held in memory together; 422 beyond."""
    values: int = 16 * 2**20
    """Numbers in one answer of /embed_tokens; 422 beyond."""
    results: int = 1000
    """Hits or substitutes that one request may ask for; 422 beyond."""
    batch_tokens: int = 2048
    """Words that go through the model together; of requests that came at the same time."""
    queue_tokens: int = 131_072
    """Words that may wait; 429 beyond. With the model's speed this bounds how long one waits."""
    queue_requests: int = 256
    """Requests that may wait; 429 beyond."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{field.name} is {value!r}; a whole number from 1 is needed")

    def changed(self, changes: Sequence[str]) -> Limits:
        """These limits with some of them changed by `name=value` lines."""
        values: dict[str, int] = {}
        for change in changes:
            name, _, value = change.partition("=")
            if not value.strip().isdecimal():
                raise ConfigError(f"{change!r} is no limit; write name=number: queue_requests=64")
            values[name.strip()] = int(value)
        check_keys(values, {field.name for field in dataclasses.fields(self)}, "--set")
        return dataclasses.replace(self, **values)


@dataclass(frozen=True, kw_only=True)
class Access:
    """Who may ask."""

    api_key: str | None = dataclasses.field(default=None, repr=False)
    """Asked for as `Authorization: Bearer KEY`; None asks for none."""
    hosts: tuple[str, ...] = ()
    """Names by which the server may be called; empty: any."""

    def __post_init__(self) -> None:
        if self.api_key is not None and not self.api_key.strip():
            raise ConfigError("the API key is empty; set RELMO_API_KEY to a long random text")


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def hosts_for(host: str, also: Sequence[str] = ()) -> tuple[str, ...]:
    """Names that a request may give as its Host, for a server bound to this address.

    On loopback these are loopback's own names: a page of a stranger, whose name was made to lead to
    127.0.0.1, could else read what the server answers (DNS rebinding).
    """
    if is_loopback(host):
        return tuple(dict.fromkeys([*LOOPBACK_NAMES, host, *also]))
    return tuple(also)
