"""Limits: how large a request may be, how long a client may take, how much the server holds.

Everything here is checked before the work it bounds is done. access.py applies the limits on
bodies, service.py those on text, batcher.py those on the queue, connections.py the others.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from relmo.config import Count, Settings, check_keys
from relmo.errors import ConfigError
from relmo.serve.errors import ApiError

MAX_KEYS = 1024
"""Names of fields in a body, nested ones included, besides those of texts."""
KEYS_PER_TEXT = 2
"""Names of fields that an input of a task model may have."""
FREE_BYTES = 2**19
"""Memory that every request gets without asking, so that small ones pass when large ones wait."""
BYTES_PER_BODY_BYTE = 8
"""Memory of a body, its text and its words, per byte of the body."""
BYTES_PER_VALUE = 24
"""Memory of a number in a response: as float32, and as JSON while it is written and sent."""
BYTES_PER_RESULT = 512
"""Memory of what a task model says of a word, or of a label: as objects, and as JSON."""
BYTES_PER_CHARACTER = 16
"""Memory of a character in a response: as text, and as JSON while it is written and sent."""
RETRY_SECONDS = 5
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Limits(Settings):
    """Limits of a server; `relmo serve --set NAME=NUMBER` changes one."""

    body_bytes: Count = 4 * 2**20
    """Size of a request body; 413 above."""
    body_seconds: Count = 30
    """Time for a body to arrive; 408 after that."""
    texts: Count = 2048
    """Texts or sentences per request, the same as OpenAI's limit; 422 above."""
    characters: Count = 524_288
    """Characters of text per request, before it is tokenized; 422 above."""
    query_characters: Count = 8192
    """Characters of a search query; 422 above."""
    tokens: Count = 65_536
    """Words per request, all texts together; 422 above."""
    sentence_tokens: Count = 8192
    """Words per sentence, which are held in memory together; 422 above."""
    document_tokens: Count = 4096
    """Words that a task model reads as a whole, such as a document of coref; 422 above."""
    values: Count = 16 * 2**20
    """Numbers in one response of /embed_tokens; 422 above."""
    sense_tokens: Count = 16_384
    """Words of the texts in which senses are found; 422 above."""
    sense_requests: Count = 4
    """Requests for senses or change at once, of which one is worked on; 429 above."""
    scored_tokens: Count = 256
    """Words of a sentence whose surprisal is found; 422 above."""
    results: Count = 1000
    """Largest k for search hits and substitutes; 422 above."""
    search_seconds: Count = 30
    """Time of one search in the index; 503 after that."""
    hit_characters: Count = 8 * 2**20
    """Characters of the texts and metadata of all hits of a search; 422 above."""
    batch_tokens: Count = 2048
    """Words per batch of the model, taken from concurrent requests."""
    queue_tokens: Count = 131_072
    """Words in the queue; 429 above. Together with the model's speed this bounds the wait."""
    queue_requests: Count = 256
    """Requests in the queue; 429 above."""
    memory_bytes: Count = 2**30
    """Estimated memory of all requests in progress, the model not counted; 429 above."""
    connections: Count = 512
    """Open connections. A new one replaces the one that has kept the server waiting longest; 503 if
    none does."""
    peer_connections: Count = 256
    """Open connections of one address (IPv6: of one /64 network), in the same way."""
    head_bytes: Count = 16_384
    """Size of a request's first line and headers; 400 above."""
    head_seconds: Count = 10
    """Time for the first line and the headers to arrive; then the connection ends."""
    idle_seconds: Count = 30
    """Time a connection may stay open between requests."""
    write_seconds: Count = 30
    """Time for a client to take the next part of a response (256 KiB); then the connection ends."""
    stop_seconds: Count = 60
    """Time to answer accepted requests after SIGTERM or Ctrl-C; then they are dropped."""

    @property
    def items(self) -> int:
        """JSON values in one body: what `texts` and `tokens` allow, and a few for other fields."""
        return self.tokens + self.texts + MAX_KEYS

    @property
    def keys(self) -> int:
        """Names of fields in one body."""
        return KEYS_PER_TEXT * self.texts + MAX_KEYS

    def changed(self, changes: Sequence[str]) -> Limits:
        """Copy with some limits changed, each given as `name=number`."""
        values: dict[str, int] = {}
        for change in changes:
            name, _, value = change.partition("=")
            if not value.strip().isdecimal():
                raise ConfigError(f"--set: expected NAME=NUMBER like texts=64, got {change!r}")
            values[name.strip()] = int(value)
        check_keys(values, {field.name for field in dataclasses.fields(self)}, "--set")
        return dataclasses.replace(self, **values)


def check_shape(body: bytes, limits: Limits) -> None:
    """Raise ApiError if a JSON body has too many values or keys, without parsing it.

    Parsed values take up to a hundred times the memory of their text. Every value after the first
    follows a comma or an opening bracket, every key precedes a colon; those inside strings do not
    count. The loop ends at the limit, however long the body is.
    """
    if not json.detect_encoding(body).startswith("utf-8"):
        raise ApiError(400, "expected JSON in UTF-8", code="not_utf8")
    if _count(body, b",[{") <= limits.items and body.count(b":") <= limits.keys:
        return  # even if none of these is inside a string
    values = keys = end = 0
    for number, string in enumerate(_STRING.finditer(body)):
        start = string.start()
        values += _count(body, b",[{", end, start)
        keys += body.count(b":", end, start)
        end = string.end()
        _check_counts(max(values, number - limits.keys), keys, limits)
    _check_counts(values + _count(body, b",[{", end), keys + body.count(b":", end), limits)


def _count(body: bytes, characters: bytes, start: int = 0, end: int | None = None) -> int:
    return sum(body.count(character, start, end) for character in characters)


def _check_counts(values: int, keys: int, limits: Limits) -> None:
    if values > limits.items:
        text = f"the body contains more than {limits.items:,} values; send several requests"
        raise ApiError(413, text, code="too_many_values")
    if keys > limits.keys:
        text = f"the body contains more than {limits.keys:,} field names"
        text += "; see /docs for those allowed"
        raise ApiError(413, text, code="too_many_fields")


class Memory:
    """Estimated memory of the requests in progress. Used by the event loop's thread alone."""

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0

    def request(self) -> Reservation:
        """The part that one request takes; use it as a context manager."""
        return Reservation(self)


class Reservation:
    """What one request has taken of the memory, until its response is sent."""

    def __init__(self, memory: Memory) -> None:
        self._memory, self._wanted, self._taken = memory, 0, 0

    def add(self, size: int) -> None:
        """Take more bytes; raises ApiError if other requests have left too few.

        A request alone gets what it wants, because the other limits bound it.
        """
        self._wanted += size
        more = max(0, self._wanted - FREE_BYTES) - self._taken
        others = self._memory.used - self._taken
        if more and others and self._memory.used + more > self._memory.limit:
            text = f"too many large requests at once; retry in {RETRY_SECONDS} s"
            headers = {"retry-after": str(RETRY_SECONDS)}
            raise ApiError(429, text, code="server_busy", headers=headers)
        self._taken += more
        self._memory.used += more

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._memory.used -= self._taken
        self._taken = 0
