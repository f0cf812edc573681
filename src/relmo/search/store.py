"""What an index needs of the place it is kept in. Two keep it: `embedded.py` and `postgres.py`.

A store holds documents, their passages, a vector and the terms of each passage, and a note about
how they were made. `replace` is one transaction: when it returns, what it was given is on disk,
and a crash before that leaves no trace of it. Both stores give the same hits with the same scores
(tests/contracts/test_stores.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from relmo.search.documents import Document, Passage, Value
from relmo.search.filters import Condition
from relmo.types import Vectors

BEGUN = "another run has begun this index meanwhile; start this one again, and it goes on"
K1, B = 1.5, 0.75
"""BM25's: how soon repeating a term stops to count, and how much long passages are held back.
k1 was chosen on half of Cranfield's queries among 0.9, 1.2, 1.5 and 2."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A document on its way into a store."""

    document: Document
    passages: Sequence[Passage]
    vectors: Vectors
    """(passages, D): one row of length one each, or zeros for a passage without words."""
    terms: Sequence[Sequence[str]]
    """Of each passage, repeated as they occur."""


class Scored(NamedTuple):
    """A passage's number in the store, and how well it answers."""

    passage: int
    score: float


class Found(NamedTuple):
    """A passage with the document that it is cut from."""

    key: str
    source: str
    meta: Mapping[str, Value]
    passage: Passage


class Counts(NamedTuple):
    """How much a store holds."""

    documents: int
    passages: int


class Store(Protocol):
    """Where an index is kept."""

    def read_about(self) -> tuple[str, bytes] | None:
        """How the index was made: settings as JSON, arrays as bytes; None for a new store."""

    def write_about(self, settings: str, arrays: bytes) -> None:
        """Set it, once: a second time, which another process may have made it, is an error."""

    def sources(self) -> list[str]:
        """Where documents came from."""

    def digests(self, source: str) -> dict[str, str]:
        """Key -> digest of the documents of one source."""

    def replace(self, entries: Sequence[Entry], gone: Sequence[str] = ()) -> None:
        """Delete the documents with keys in `gone`; add entries, or put them in place of old."""

    def nearest(self, query: Vectors, count: int, where: Sequence[Condition] = ()) -> list[Scored]:
        """Passages by inner product with the query (D,), best first; ties by number."""

    def matching(
        self, terms: Sequence[str], count: int, where: Sequence[Condition] = ()
    ) -> list[Scored]:
        """Passages that hold one of the terms, by BM25, best first; ties by number."""

    def vectors(self, passages: Sequence[int]) -> Vectors:
        """The vectors of passages by number, (n, D); zeros for one that was deleted meanwhile."""

    def found(self, passages: Sequence[int]) -> list[Found | None]:
        """Passages by number, in order; None for one that was deleted meanwhile."""

    def meta_keys(self) -> list[str]:
        """The keys of all metadata, in order: what filters can ask for."""

    def counts(self) -> Counts:
        """How much there is."""

    def tidy(self) -> None:
        """Clean up after changes, where it is worth it; searches find the same before and after."""

    def discard(self) -> None:
        """Take a new store away again, if nothing was written into it: its first run failed."""

    def close(self) -> None:
        """Let go of it."""
