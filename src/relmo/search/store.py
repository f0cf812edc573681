"""The interface of a store, where an index is kept: `sqlite.py` and `postgres.py` implement it.

`replace` is one transaction: when it returns, the data is on disk, and a crash before that leaves
no trace of it. Both stores return the same hits and scores (tests/contracts/test_stores.py).
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from relmo.errors import ConfigError, OutputError, RelmoError
from relmo.search.documents import MetaValue, Passage
from relmo.search.filters import Conditions
from relmo.types import Vectors

Terms = Sequence[str] | Mapping[str, float]
"""What BM25 searches for: terms, repeated as they occur in the query, or terms with weights."""
SCHEMES = ("postgresql://", "postgres://")
SCORE_DECIMALS = 5
"""Scores are rounded, so that equal passages have equal scores wherever they are computed."""


class Stored(Protocol):
    """What an index holds of a document besides its passages."""

    @property
    def key(self) -> str:
        """Its unique name."""

    @property
    def source(self) -> str:
        """Where it came from."""

    @property
    def digest(self) -> str:
        """A checksum, by which changes are detected."""

    @property
    def meta(self) -> Mapping[str, MetaValue]:
        """What searches can filter on."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A document ready to be stored."""

    document: Stored
    passages: Sequence[Passage]
    vectors: Vectors
    """(passages, D): unit-length rows, or zeros for a passage without words."""
    terms: Sequence[Sequence[str]]
    """The terms of each passage, repeated as they occur."""


class Scored(NamedTuple):
    """The number of a passage in the store, and its score."""

    passage: int
    score: float
    from_words: float = 0.0
    """The part of the score that comes from words; the rest comes from vectors."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage found for a query."""

    document: str
    """Key of the document."""
    source: str
    line: int
    start: int
    end: int
    """Characters of the document's text."""
    score: float
    text: str
    meta: dict[str, MetaValue]
    copies: int = 0
    """Near-copies of it that would have come before the last hit and were left out."""
    from_words: float | None = field(default=None, compare=False, repr=False)
    """The part of the score that comes from words, for `explain.py`; None if it is not known."""

    def to_dict(self) -> dict[str, Any]:
        """The hit as plain values, ready for JSON."""
        values = dataclasses.asdict(self)
        del values["from_words"]
        return values


class IndexCounts(NamedTuple):
    """The number of documents and passages in an index."""

    documents: int
    passages: int


class SearchTimeout(OutputError):
    """A search took longer than it may."""


class Store(ABC):
    """A database with documents, passages with vectors and terms, and a header; thread-safe.

    The tables `about` (the header), `documents` and `passages` have the same columns in every
    store; how vectors and terms are kept and searched differs. In SQL, `?` marks a parameter.

    Args:
        name: path or address, as shown in messages.
        create: create the index if there is none, and take the writer's lock (`lock`).
    """

    ERROR: type[Exception]
    """What the database raises."""
    HINT: ClassVar[str] = ""
    """Added to messages of such errors."""
    META_KEYS: ClassVar[str]
    """SQL that selects the keys of all metadata."""

    def __init__(self, name: str, create: bool) -> None:
        self.name = name
        self._lock = threading.RLock()
        self._depth = 0
        self._thread = threading.local()
        self._db = self._connect()
        try:
            with self._session():
                if create:
                    self.lock()
                self._prepare(create)
            # under the lock: an index without a header is this run's, or left by one that crashed
            self._is_new = create and self.read_header() is None
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _connect(self) -> Any:  # noqa: ANN401 - the connection of any database
        """Open the database."""

    @abstractmethod
    def _prepare(self, create: bool) -> None:
        """Check that the database holds an index, or create the tables of one."""

    @abstractmethod
    def _run(self, query: str, values: Sequence[Any] = ()) -> Any:  # noqa: ANN401 - any cursor
        """Execute a statement and return the cursor."""

    @abstractmethod
    def _drop(self) -> None:
        """Delete the index."""

    @abstractmethod
    def lock(self) -> None:
        """Exclude other processes that create or update the index, until `unlock` or `close`.

        OutputError names the process that holds the lock. Holding it already is not an error.
        """

    @abstractmethod
    def unlock(self) -> None:
        """Let other processes write; without the lock nothing happens."""

    def _check_connection(self) -> None:  # noqa: B027 - a file has no connection to lose
        """Called before each use of the database."""

    @contextmanager
    def _session(self) -> Iterator[None]:
        """Exclude other threads; turn errors of the database into OutputError."""
        with self._lock:
            self._depth += 1
            try:
                if self._depth == 1:
                    self._check_connection()
                yield
            except self.ERROR as error:
                raise self._failure(error) from error
            finally:
                self._depth -= 1

    def _failure(self, error: Exception) -> BaseException:
        """What is raised in place of an error of the database."""
        return OutputError(self._explain(error))

    def interrupt(self) -> None:  # noqa: B027 - see `deadline`
        """End what another thread does with the database, as far as the database can."""

    @contextmanager
    def deadline(self, seconds: float) -> Iterator[None]:
        """Within the block, `SearchTimeout` ends what takes this thread longer."""
        self._thread.deadline = time.monotonic() + seconds
        try:
            yield
        finally:
            self._thread.deadline = math.inf

    @abstractmethod
    def one_state(self) -> AbstractContextManager[object]:
        """Within the block, this thread reads one state of the index, whatever others write."""

    def _is_late(self) -> bool:
        return time.monotonic() > float(getattr(self._thread, "deadline", math.inf))

    def _explain(self, error: Exception) -> str:
        return f"{self.name}: {error}{self.HINT}"

    def close(self) -> None:
        """Close the database and give up the writer's lock."""
        with self._lock:
            self._db.close()

    def discard(self) -> None:
        """Delete an index of this process that has no header yet, because creating it failed."""
        with self._lock:
            if self._is_new and self.read_header() is None:
                self._drop()
                self._is_new = False

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """Close the database if an error occurs; an index without a header is deleted."""
        try:
            yield
        except BaseException:
            with closing(self):
                self.discard()
            raise

    # ── writing ─────────────────────────────────────────────────────────────────────────────

    def write_header(self, settings: str, arrays: bytes) -> None:
        """Set the header, once: if another process has created the index, that is an error."""
        query = "INSERT INTO about VALUES (1, ?, ?) ON CONFLICT (one) DO NOTHING"
        with self._session():
            if not self._run(query, (settings, arrays)).rowcount:
                raise OutputError(
                    f"{self.name}: another process has just created this index; run the command "
                    f"again to continue it"
                )

    @abstractmethod
    def replace(self, entries: Sequence[Entry], delete: Sequence[str] = ()) -> None:
        """Delete documents by key, and add entries or replace those of equal key."""

    @abstractmethod
    def optimize(self) -> None:
        """Clean up after changes if it is worthwhile; hits stay the same."""

    # ── reading ─────────────────────────────────────────────────────────────────────────────

    def read_header(self) -> tuple[str, bytes] | None:
        """The settings as JSON and the fitted encoder as bytes; None for a new store."""
        with self._session():
            row = self._run("SELECT settings, arrays FROM about").fetchone()
        if row is None:
            return None
        with unreadable(self.name):
            (settings,) = check_kinds(row[:1], (str,))
            return settings, bytes(memoryview(row[1]))

    def sources(self) -> list[str]:
        """The sources of all documents, sorted."""
        with self._session():
            rows = self._run("SELECT DISTINCT source FROM documents").fetchall()
        with unreadable(self.name):
            return sorted(check_kinds(row, (str,))[0] for row in rows)

    def digests(self, source: str) -> dict[str, str]:
        """Key -> digest of the documents of one source."""
        with self._session():
            rows = self._run("SELECT key, digest FROM documents WHERE source = ?", (source,))
            with unreadable(self.name):
                return dict(tuple(check_kinds(row, (str, str))) for row in rows.fetchall())

    def source_of(self, key: str) -> str | None:
        """The source of a document; None if there is none with this key."""
        with self._session():
            row = self._run("SELECT source FROM documents WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def meta_keys(self) -> list[str]:
        """The keys of all metadata, sorted: what filters can refer to."""
        with self._session():
            keys = [row[0] for row in self._run(self.META_KEYS)]
        with unreadable(self.name):
            return sorted(check_kinds(keys, (str,) * len(keys)))

    def stored(self) -> Iterator[Sequence[Any]]:
        """Key, source, digest and metadata of each document, beside each passage that it has.

        Rows are read as they are asked for; nobody may write meanwhile.
        """
        query = (
            "SELECT d.key, d.source, d.digest, d.meta, p.start, p.stop, p.line, p.text "
            "FROM documents AS d JOIN passages AS p ON p.document = d.id ORDER BY d.id, p.id"
        )
        with self._session():
            rows = self._run(query)
        yield from rows

    def counts(self) -> IndexCounts:
        """The number of documents and passages."""
        query = "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM passages)"
        with self._session():
            return IndexCounts(*self._run(query).fetchone())

    def best_of_documents(self, scored: Sequence[Scored]) -> list[Scored]:
        """The first passage of each document, in order, without those deleted meanwhile."""
        numbers = ", ".join(str(each.passage) for each in scored)
        query = f"SELECT id, document FROM passages WHERE id IN ({numbers})"
        with self._session():
            document_of = dict(self._run(query).fetchall()) if scored else {}
        best: dict[int, Scored] = {}
        for each in scored:
            if each.passage in document_of:
                best.setdefault(document_of[each.passage], each)
        return list(best.values())

    def characters(self, scored: Sequence[Scored]) -> int:
        """Characters of the texts and the metadata of passages."""
        numbers = ", ".join(str(each.passage) for each in scored)
        query = f"""SELECT coalesce(sum(length(text) + length(CAST(meta AS text))), 0)
                    FROM passages JOIN documents ON documents.id = document
                    WHERE passages.id IN ({numbers})"""
        with self._session():
            return int(self._run(query).fetchone()[0]) if scored else 0

    def texts(self, passages: Sequence[int]) -> list[str]:
        """The texts of passages by number; "" for those deleted meanwhile."""
        numbers = ", ".join(map(str, passages))
        query = f"SELECT id, text FROM passages WHERE id IN ({numbers})"
        with self._session():
            found = dict(self._run(query).fetchall()) if numbers else {}
        with unreadable(self.name):
            texts = [found.get(number, "") for number in passages]
            check_kinds(texts, (str,) * len(texts))
        return texts

    def hits(self, scored: Sequence[Scored]) -> list[Hit]:
        """The passages with their documents, in order, without those deleted meanwhile."""
        numbers = ", ".join(str(each.passage) for each in scored)
        query = f"""SELECT passages.id, key, source, line, start, stop, text, CAST(meta AS text)
                    FROM passages JOIN documents ON documents.id = document
                    WHERE passages.id IN ({numbers})"""
        with self._session():
            rows = {row[0]: row[1:] for row in self._run(query)} if scored else {}
        known = (each for each in scored if each.passage in rows)
        found = [(*rows[each.passage], each.score, each.from_words) for each in known]
        with unreadable(self.name):
            hits: list[Hit] = []
            for row in found:
                key, source, line, start, end, text, meta, score, part = check_kinds(row, HIT_KINDS)
                (values,) = check_kinds([json.loads(meta)], (dict,))
                hit = Hit(key, source, line, start, end, score, text, values, from_words=part)
                hits.append(hit)
            return hits

    @abstractmethod
    def nearest(self, query: Vectors, count: int, where: Conditions = ()) -> list[Scored]:
        """Passages by inner product with the query (D,), best first; ties by number."""

    @abstractmethod
    def matching(self, terms: Terms, count: int, where: Conditions = ()) -> list[Scored]:
        """Passages that contain one of the terms, by BM25, best first; ties by number."""

    @abstractmethod
    def occurrences(self, terms: Collection[str]) -> dict[str, int]:
        """In how many passages each term occurs; terms that occur in none are left out."""

    @abstractmethod
    def vectors(self, passages: Sequence[int]) -> Vectors:
        """The vectors of passages by number, (n, D); zeros for those deleted meanwhile."""


def weights_of(terms: Terms) -> Mapping[str, float]:
    """Each term with its weight: how often it is repeated."""
    return terms if isinstance(terms, Mapping) else Counter(terms)


HIT_KINDS = (str, str, int, int, int, str, str, float, float)


def check_kinds(row: Sequence[Any], kinds: Sequence[type]) -> Sequence[Any]:
    """The row; TypeError if a value is of another kind, which SQLite allows in any column."""
    for value, kind in zip(row, kinds, strict=True):
        if type(value) is not kind:
            raise TypeError(f"expected {kind.__name__}, found {type(value).__name__}")
    return row


UNREADABLE = (
    ValueError, TypeError, AttributeError, LookupError, ArithmeticError, EOFError, RecursionError,
    struct.error,
)  # fmt: skip
"""What stored data of the wrong form cause."""


@contextmanager
def unreadable(name: str) -> Iterator[None]:
    """Turn errors of interpreting stored data into an OutputError: the index is damaged."""
    try:
        yield
    except RelmoError:
        raise
    except UNREADABLE as error:
        raise OutputError(damaged(name, str(error))) from error


def damaged(name: str, problem: str) -> str:
    """The message of an error: the index cannot be trusted."""
    return (
        f"{name} is damaged ({problem}); restore a copy, or delete it and build the index again "
        f"with relmo index"
    )


def check_width(name: str, vectors: Vectors, width: int) -> Vectors:
    """Stored vectors, (n, D); OutputError if they are not as wide as those of the model."""
    if vectors.shape[1] != width:
        raise OutputError(damaged(name, f"vectors have {vectors.shape[1]} numbers, not {width}"))
    return vectors


def this_process() -> str:
    """How another process names this one."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def busy(name: str, holder: str) -> str:
    """The message of an error: another process writes the index."""
    return f"{name}: {holder} is writing this index; wait until it ends, or choose another index"


def open_store(where: str | Path, *, create: bool) -> Store:
    """Open the store at a path, or in a PostgreSQL database.

    Args:
        where: a file, or postgresql://user@host/database; `?relmo_index=NAME` selects one of
            several indexes in a database.
        create: create the store if there is none.
    """
    if isinstance(where, str) and where.startswith(SCHEMES):
        from relmo.search.postgres import PostgresStore

        return PostgresStore(where, create=create)
    if isinstance(where, str) and "://" in where:
        raise ConfigError(
            f"{without_password(where)}: unknown kind of store; give a file or postgresql://…"
        )
    from relmo.search.sqlite import SqliteStore

    return SqliteStore(where, create=create)


def without_password(address: str) -> str:
    """The address as it may be shown and logged; a path stays as it is."""
    shown = re.sub(r"(?<=://)([^:/@]*):.*@", r"\1:…@", address)
    return re.sub(r"([?&]password=)[^&]*", r"\1…", shown)


def rank(ids: NDArray[np.int64], scores: NDArray[np.floating], count: int) -> list[Scored]:
    """The passages with the highest scores, best first; ties by number."""
    if count < len(scores):  # sort only those that can be among the best after rounding
        worst = np.partition(scores, len(scores) - count)[len(scores) - count]
        kept = np.flatnonzero(scores >= worst - 2 * 10.0**-SCORE_DECIMALS)
        ids, scores = ids[kept], scores[kept]
    rounded = np.round(scores.astype(np.float64), SCORE_DECIMALS)
    order = np.lexsort((ids, -rounded))[:count]
    return [Scored(int(ids[i]), float(rounded[i])) for i in order]
