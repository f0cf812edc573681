"""What is indexed: a document is a text with a name; passages are cut from it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from relmo.errors import TextError

_SURROGATE = re.compile("[\ud800-\udfff]")

Value = str | int | float | bool | None
"""What a filter can compare."""


@dataclass(frozen=True, slots=True)
class Document:
    """One text: a file, or a row of a table."""

    key: str
    """Its name in the index: the file's path, or `path#id` for a row. An equal key replaces."""
    source: str
    """The file it came from, or any name that groups documents."""
    text: str
    line: int = 1
    """Where the text starts in its source, from 1."""
    is_row: bool = False
    """A row of a table stands on one line, whatever newlines its text holds."""
    meta: Mapping[str, Value] = field(default_factory=dict)
    """What searches can filter on."""

    def __post_init__(self) -> None:
        try:
            meta = self._dumped()
        except (TypeError, ValueError) as error:
            raise TextError(f"{self.key!r}: its metadata cannot be kept ({error})") from error
        for what, text in (("key", self.key), ("source", self.source), ("metadata", meta)):
            if "\0" in text or _SURROGATE.search(text):
                raise TextError(f"{self.key!r}: its {what} holds NUL or half a character; clean it")
        if _SURROGATE.search(self.text):
            raise TextError(f"{self.key!r}: its text is not valid Unicode; convert it")

    @property
    def digest(self) -> str:
        """A checksum by which a changed document is known."""
        content = f"{self.line}\n{self._dumped()}\n{self.text}"
        return hashlib.sha256(content.encode()).hexdigest()[:32]

    def _dumped(self) -> str:
        return json.dumps(dict(self.meta), sort_keys=True, ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document, as long as one vector can stand for."""

    start: int
    end: int
    """Characters of the document's text."""
    line: int
    """Line of its source in which it starts."""
    text: str


@dataclass(frozen=True, slots=True)
class BadRow:
    """Something in a source that cannot be indexed."""

    source: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.source}, line {self.line}: {self.what}"
