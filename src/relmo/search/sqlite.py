"""The default store: one SQLite file, searched exactly.

SQLite keeps the data safe; searches run in memory, where the vectors of 100,000 passages of width
256 take 100 MB and one matrix product finds the nearest in a few milliseconds:

    documents, passages    a row each
    segments               the vectors of all passages added by one transaction, as one blob
    postings               per term and segment: the passages that contain it, and how often

Segments are never changed. A deleted passage leaves its rows behind, which no search sees, until
`optimize` merges segments. Readers notice what other processes write. Where SQLite cannot create
its files beside the index, as on a read-only disk, the index can still be searched.

A checksum of the file is verified on opening (`sqlite_file.py`). The file may come from
anywhere: no view, trigger or other table than our own is accepted, and what is stored is checked as
it is read.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from relmo.errors import ConfigError, OutputError
from relmo.search.documents import MetaValue
from relmo.search.filters import Condition, Conditions, to_sql, value_kind
from relmo.search.lexical import bm25
from relmo.search.settings import CHECKSUMMED
from relmo.search.sqlite_file import RawFile, WriterLock, check_journal
from relmo.search.store import (
    Entry,
    Scored,
    SearchTimeout,
    Store,
    Terms,
    check_width,
    damaged,
    rank,
    unreadable,
    weights_of,
)
from relmo.types import Vectors

APPLICATION_ID = 0x72656C6D
"""SQLite's mark of a file format: "relm". A file without it is not an index."""
CHECKPOINT_SECONDS = 0.5
"""How long a writer that is done waits for readers; the next one does what it leaves."""
WAIT_SECONDS = 60.0
"""How long a writer waits for another."""
STEPS = 100_000
"""Steps of SQLite, about a millisecond, after which signals and the time limit are looked at."""
NOT_OURS = ("malformed JSON", "string or blob too big", "Could not decode to UTF-8")
"""Messages of SQLite about data that relmo does not write."""
CACHED_FILTERS = 16
FEW_TERMS = 64
"""Terms that are looked up one by one; for more, those of the whole index are read once."""
MERGED_ROWS = 8192
"""Passages of a segment after merging; bounds memory."""
MANY_SEGMENTS = 256
"""Fewer segments than this need no merging."""
SEGMENT = ("<i8", "<u4", "<f2")
"""Types of the arrays of a segment: numbers of passages, their lengths in terms, vectors."""
POSTING = np.dtype([("id", "<u4"), ("count", "<u4")])
"""One passage in the list of a term."""
POSTINGS = """postings (
    term TEXT NOT NULL, segment INTEGER NOT NULL, rows BLOB NOT NULL, PRIMARY KEY (term, segment)
) WITHOUT ROWID"""
TABLES = f"""
CREATE TABLE IF NOT EXISTS about (
    one INTEGER PRIMARY KEY CHECK (one = 1), settings TEXT NOT NULL, arrays BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS documents (
    id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, source TEXT NOT NULL, digest TEXT NOT NULL,
    meta TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS documents_source ON documents (source);
CREATE TABLE IF NOT EXISTS passages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, document INTEGER NOT NULL, start INTEGER NOT NULL,
    stop INTEGER NOT NULL, line INTEGER NOT NULL, text TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS passages_document ON passages (document);
CREATE TABLE IF NOT EXISTS segments (
    id INTEGER PRIMARY KEY AUTOINCREMENT, ids BLOB NOT NULL, lengths BLOB NOT NULL,
    vectors BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS {POSTINGS};
"""
UPGRADE = f"""UPDATE about SET settings = json_set(settings, '$.version', {CHECKSUMMED})
              WHERE json_extract(settings, '$.version') < {CHECKSUMMED}"""


class SqliteStore(Store):
    """An index in one file."""

    ERROR = sqlite3.Error
    HINT = "; is the file writable, and is there room on the disk?"
    META_KEYS = "SELECT DISTINCT each.key FROM documents, json_each(meta) AS each"

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        self.path = Path(path)
        if not create and not self.path.is_file():
            raise ConfigError(
                f"{path}: no such index; create one with: relmo index PATH --out {path}"
            )
        if self.path.is_dir():
            raise OutputError(f"{path}: this is a folder, give a file")
        self._rows: PassageRows | None = None
        self._filtered: dict[str, NDArray[np.intp]] = {}
        self._occurrences: dict[str, int] | None = None
        self._lists_deleted = False
        """Whether lists of terms still contain passages that were deleted."""
        self._version = -1
        self._has_changed = False
        self._is_sound: bool | None = None
        """Whether the file was compared with its checksum or checked by SQLite; None: not yet."""
        self._read_only: tuple[int, int] | None = None
        """What the file looked like when it was opened as one that nobody changes."""
        self._raw: RawFile | None = None
        self._file = Path(os.path.realpath(self.path))
        """Where SQLite has its other files."""
        self._writer = WriterLock(self._file)
        self._stopped_by: BaseException | None = None
        try:
            if create:
                self.lock()  # before SQLite creates the file
            check_journal(self._file, is_writer=create)
            super().__init__(str(path), create)
        except BaseException as error:
            self._writer.release()
            if isinstance(error, sqlite3.Error):
                raise OutputError(f"{path}: {error}; does its folder exist?") from error
            raise

    def lock(self) -> None:
        """Exclude other processes that write."""
        self._writer.acquire()

    def unlock(self) -> None:
        """Let other processes write."""
        self._writer.release()

    # ── opening and closing ─────────────────────────────────────────────────────────────────

    def _connect(self) -> sqlite3.Connection:
        db = self._open_file(str(self.path))
        self._raw = RawFile(self.path)
        return db

    def _open_file(self, name: str, is_uri: bool = False) -> sqlite3.Connection:
        db = sqlite3.connect(
            name,
            timeout=WAIT_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            uri=is_uri,
        )
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA cell_size_check = ON")
        db.set_progress_handler(self._must_stop, STEPS)
        return db

    def _must_stop(self) -> bool:
        """Called by SQLite now and then: whether a signal came, or the time is over."""
        try:
            return self._is_late()
        except BaseException as error:  # sqlite3 would drop it
            self._stopped_by = error
            return True

    def interrupt(self) -> None:
        """End what another thread does with the database, with an error there."""
        self._db.interrupt()

    def _prepare(self, create: bool) -> None:
        foreign = ConfigError(f"{self.path} is not a relmo index; choose another file")
        try:
            mark = self._read_mark(create)
        except sqlite3.DatabaseError as error:
            is_ours = self._raw is not None and self._raw.mark() == APPLICATION_ID
            if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB or is_ours:
                raise
            raise foreign from error
        if mark == APPLICATION_ID:
            self._verify()
        tables = _schema(self._db)
        if mark != APPLICATION_ID and (tables or not create):
            raise foreign
        if tables and tables != _own_schema():
            raise OutputError(damaged(self.name, "its tables are not those of an index"))
        self._run("PRAGMA synchronous = FULL")  # what is acknowledged is on disk
        if create and not tables:
            self._run("PRAGMA journal_mode = WAL")  # readers continue while one writes
            with self._transaction():
                for statement in TABLES.split(";\n"):
                    self._run(statement)
                self._run(f"PRAGMA application_id = {APPLICATION_ID}")

    def _read_mark(self, create: bool) -> int:
        """The application's mark: the first that is read of the file."""
        try:
            (mark,) = self._run("PRAGMA application_id").fetchone()
        except sqlite3.OperationalError as error:
            needs_files = error.sqlite_errorcode & 0xFF in (
                sqlite3.SQLITE_CANTOPEN,
                sqlite3.SQLITE_READONLY,
                sqlite3.SQLITE_FULL,
                sqlite3.SQLITE_IOERR,  # of the shared memory, on a full disk
            )
            if create or not needs_files:
                raise
            self._open_read_only()
            (mark,) = self._run("PRAGMA application_id").fetchone()
        return int(mark)

    def _open_read_only(self) -> None:
        """Open the file without the two that SQLite wants beside it."""
        if self._wal_bytes():
            raise OutputError(
                f"{self.path}: its latest changes are in {self.path.name}-wal, and SQLite cannot "
                f"merge them in a folder that is not writable; search the index once where it is"
            )
        self._close_file()
        self._read_only = self._appearance()
        self._db = self._open_file(f"{self.path.absolute().as_uri()}?immutable=1", is_uri=True)
        self._raw = RawFile(self.path)

    def _appearance(self) -> tuple[int, int]:
        status = self.path.stat()
        return status.st_mtime_ns, status.st_size

    def _check_connection(self) -> None:
        """Open a read-only file again after somebody who may write has changed it."""
        with suppress(FileNotFoundError):
            if self._read_only is not None and self._read_only != self._appearance():
                self._open_read_only()
                self._rows = None
                self._verify()

    def _verify(self) -> None:
        """Compare the file with its checksum, if it has one."""
        assert self._raw is not None
        self._run("BEGIN")
        try:
            (known,) = self._run("PRAGMA user_version").fetchone()
            if known:
                self._is_sound = self._raw.checksum() == known
        finally:
            self._run("COMMIT")
        if self._is_sound is False:
            raise OutputError(damaged(self.name, "its contents do not match its checksum"))

    def _write_checksum(self) -> None:
        """Write the checksum of the file, unless another process uses it now."""
        assert self._raw is not None
        with self._transaction():  # a version that knows no checksums must not write to it
            self._run(UPGRADE)
        self._checkpoint()
        with self._transaction():
            if self._wal_bytes():
                return
            self._run(f"PRAGMA user_version = {self._raw.checksum()}")
        self._checkpoint()

    def _checkpoint(self) -> None:
        """Move changes from SQLite's log into the file, unless another process reads it."""
        self._run(f"PRAGMA busy_timeout = {int(1000 * CHECKPOINT_SECONDS)}")
        try:
            self._run("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._run(f"PRAGMA busy_timeout = {int(1000 * WAIT_SECONDS)}")

    def _wal_bytes(self) -> int:
        """Size of SQLite's log of changes that are not in the file yet."""
        log = Path(f"{self._file}-wal")
        return log.stat().st_size if log.exists() else 0

    def close(self) -> None:
        """Close the file; after changes, its checksum is written first."""
        with self._lock:
            if self._has_changed:
                with suppress(sqlite3.Error, OutputError):  # without one it is not verified
                    self._write_checksum()
            self._has_changed = False
            self._close_file()
            self._writer.release()

    def _close_file(self) -> None:
        self._db.close()
        if self._raw is not None:
            self._raw.close()
            self._raw = None

    def _failure(self, error: Exception) -> BaseException:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
            if self._is_late():
                return SearchTimeout(f"{self.name}: the search took too long and was ended")
            stopped, self._stopped_by = self._stopped_by, None
            if threading.current_thread() is threading.main_thread():
                return stopped or KeyboardInterrupt()
        return super()._failure(error)

    def _explain(self, error: Exception) -> str:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        is_damage = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
        if is_damage or str(error).startswith(NOT_OURS):
            return damaged(self.name, str(error))
        return super()._explain(error)

    def _run(self, query: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        try:
            return cast("sqlite3.Cursor", self._db.execute(query, values))
        except UnicodeDecodeError as error:  # in a message about a name that is damaged
            raise OutputError(damaged(self.name, "its schema is not readable")) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._session():
            self._check_structure()
            self._run("BEGIN IMMEDIATE")
            try:
                self._run("PRAGMA user_version = 0")  # the checksum of what is changed now
                yield
            except BaseException:
                if self._db.in_transaction:  # some errors have ended it already
                    self._run("ROLLBACK")
                raise
            self._run("COMMIT")
            self._has_changed = True
            self._version = -1

    @contextmanager
    def one_state(self) -> Iterator[PassageRows]:
        """Within the block, one state of the index is read, whatever other processes write."""
        with self._session():
            if self._db.in_transaction:  # the block is inside another one
                yield self._current()
                return
            self._run("BEGIN")
            try:
                yield self._current()
            finally:
                if self._db.in_transaction:
                    self._run("COMMIT")

    def _check_structure(self) -> None:
        """Before the first change of a file without a checksum, let SQLite check it."""
        if self._is_sound is None:
            (found,) = self._run("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise OutputError(damaged(self.name, found))
            self._is_sound = True

    def _drop(self) -> None:
        self._has_changed = False
        self._close_file()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._file}{suffix}").unlink(missing_ok=True)

    # ── writing ─────────────────────────────────────────────────────────────────────────────

    def write_header(self, settings: str, arrays: bytes) -> None:
        """Set the header, once."""
        with self._transaction():
            super().write_header(settings, arrays)

    def replace(self, entries: Sequence[Entry], delete: Sequence[str] = ()) -> None:
        """Delete documents and add others, in one transaction."""
        with self._transaction():
            for key in delete:
                self._delete(key)
            ids = [number for entry in entries for number in self._insert(entry)]
            if not ids:
                return
            terms = [Counter(each) for entry in entries for each in entry.terms]
            vectors = np.concatenate([entry.vectors for entry in entries])
            lengths = np.array([each.total() for each in terms])
            segment = _write_segment(self._db, np.array(ids), lengths, vectors)
            lists: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
            for number, counts in zip(ids, terms, strict=True):
                for term, count in counts.items():
                    lists[term].append((number, count))
            self._db.executemany(
                "INSERT INTO postings VALUES (?, ?, ?)",
                ((t, segment, np.array(rows, POSTING).tobytes()) for t, rows in lists.items()),
            )

    def _delete(self, key: str) -> None:
        row = self._run("SELECT id FROM documents WHERE key = ?", (key,)).fetchone()
        if row is not None:
            self._run("DELETE FROM passages WHERE document = ?", row)
            self._run("DELETE FROM documents WHERE id = ?", row)

    def _insert(self, entry: Entry) -> Iterator[int]:
        document = entry.document
        self._delete(document.key)
        number = self._run(
            "INSERT INTO documents (key, source, digest, meta) VALUES (?, ?, ?, ?)",
            (document.key, document.source, document.digest, json.dumps(dict(document.meta))),
        ).lastrowid
        for each in entry.passages:
            added = self._run(
                "INSERT INTO passages (document, start, stop, line, text) VALUES (?, ?, ?, ?, ?)",
                (number, each.start, each.end, each.line, each.text),
            ).lastrowid
            assert added is not None
            yield added

    def optimize(self) -> None:
        """Drop what deleted passages left behind, and merge small segments, if worthwhile."""
        with self._lock:
            if _needs_merging(self._db):
                with self._transaction():
                    _merge_segments(self._db)
                self._rows = None
            with self._session():
                self._checkpoint()

    # ── searching ───────────────────────────────────────────────────────────────────────────

    def nearest(self, query: Vectors, count: int, where: Conditions = ()) -> list[Scored]:
        """Passages by inner product with the query, best first."""
        with self.one_state() as rows:
            if len(rows.ids) == 0:
                return []
            check_width(self.name, rows.vectors, len(query))
            rounded = query.astype(np.float16).astype(np.float32)  # as vectors are stored
            # torch's threads, as for embedding: those of numpy would compete with them
            scores = torch.mv(torch.from_numpy(rows.vectors), torch.from_numpy(rounded)).numpy()
            if not where:
                return rank(rows.ids, scores, count)
            kept = self._allowed(rows, where)
            return rank(rows.ids[kept], scores[kept], count)

    def matching(self, terms: Terms, count: int, where: Conditions = ()) -> list[Scored]:
        """Passages that contain one of the terms, by BM25."""
        with self.one_state() as rows:
            if len(rows.ids) == 0:
                return []
            scores = np.zeros(len(rows.ids))  # (N,)
            mean_length = max(float(rows.lengths.mean()), 1e-9)
            for term, weight in weights_of(terms).items():
                blobs = self._run("SELECT rows FROM postings WHERE term = ?", (term,))
                with unreadable(self.name):
                    postings = np.frombuffer(b"".join(blob for (blob,) in blobs), POSTING)
                    at, found = rows.find(postings["id"].astype(np.int64))
                    frequency = postings["count"][found].astype(np.float64)
                    lengths, total = rows.lengths[at], len(scores)
                    scores[at] += weight * bm25(frequency, lengths, mean_length, total)
            kept = np.flatnonzero(scores)
            if where:
                kept = np.intersect1d(kept, self._allowed(rows, where))
            return rank(rows.ids[kept], scores[kept], count)

    def occurrences(self, terms: Collection[str]) -> dict[str, int]:
        """In how many passages each term occurs; those of all terms are kept in memory."""
        with self.one_state() as rows:
            if self._occurrences is None and len(terms) > FEW_TERMS:
                query = "SELECT term, sum(length(rows)) / ? FROM postings GROUP BY term"
                with unreadable(self.name):
                    found = self._run(query, (POSTING.itemsize,))
                    self._occurrences = {term: int(count) for term, count in found}
                (written,) = self._run("SELECT sum(length(ids)) / 8 FROM segments").fetchone()
                self._lists_deleted = written != len(rows.ids)
            known = self._occurrences
            if known is not None:
                terms = known.keys() & set(terms)
            if known is None or self._lists_deleted:
                return self._count_passages(rows, terms)
            return {term: known[term] for term in terms}

    def _count_passages(self, rows: PassageRows, terms: Collection[str]) -> dict[str, int]:
        """Term -> number of passages, without those deleted."""
        counts: Counter[str] = Counter()
        marks = ", ".join("?" * len(terms))
        found = self._run(f"SELECT term, rows FROM postings WHERE term IN ({marks})", list(terms))
        with unreadable(self.name):
            for term, blob in found:
                numbers = np.frombuffer(blob, POSTING)["id"].astype(np.int64)
                counts[term] += int(rows.find(numbers)[1].sum())
        return {term: count for term, count in counts.items() if count}

    def vectors(self, passages: Sequence[int]) -> Vectors:
        """The vectors of passages by number, (n, D)."""
        with self.one_state() as rows:
            at, found = rows.find(np.array(passages, dtype=np.int64))
            result = np.zeros((len(passages), rows.vectors.shape[1]), np.float32)
            result[found] = rows.vectors[at]
            return result

    def _allowed(self, rows: PassageRows, where: Conditions) -> NDArray[np.intp]:
        """Rows whose documents meet all conditions; cached until something is written."""
        key = repr(where)  # 1 and True are equal, but not the same condition
        if key in self._filtered:
            return self._filtered[key]
        clause, values = to_sql(where, _compare)
        query = f"""SELECT id FROM passages
                    WHERE document IN (SELECT id FROM documents WHERE {clause})"""
        numbers = np.fromiter((number for (number,) in self._run(query, values)), np.int64)
        places = np.flatnonzero(np.isin(rows.ids, numbers))
        if len(self._filtered) >= CACHED_FILTERS:
            self._filtered.clear()
        self._filtered[key] = places
        return places

    def _current(self) -> PassageRows:
        """The rows in memory, read again if this or another process has written."""
        (version,) = self._run("PRAGMA data_version").fetchone()
        if self._rows is None or version != self._version:
            self._filtered.clear()
            self._occurrences = None
            size = self.path.stat().st_size + self._wal_bytes()
            with unreadable(self.name):
                self._rows = PassageRows.read(self._db, size, self._rows)
            self._version = version
        return self._rows


def _compare(condition: Condition) -> tuple[str, list[Any]]:
    """One condition on the JSON in `documents.meta`, as SQL with its parameters.

    Keys are compared as decoded values: a path such as `$."key"` has escapes of its own, which not
    every version of SQLite reads as they are written.
    """
    is_equality = condition.operator in ("=", "!=")
    claims: list[str] = []
    bound: list[Any] = [condition.key]
    for kind, values in _by_kind(condition.values).items():
        if kind not in ("text", "number"):
            claims.append(f"each.type = '{kind}'")
            continue
        types = "('text')" if kind == "text" else "('integer', 'real')"
        # a real is bound as text, so that SQLite rounds it as it rounds the stored one
        marks = ["CAST(? AS REAL)" if isinstance(value, float) else "?" for value in values]
        claim = f"IN ({', '.join(marks)})" if is_equality else f"{condition.operator} {marks[0]}"
        claims.append(f"(each.type IN {types} AND each.value {claim})")
        bound += [repr(value) if isinstance(value, float) else value for value in values]
    prefix = "NOT " if condition.operator == "!=" else ""
    clause = f"""{prefix}EXISTS (SELECT 1 FROM json_each(meta) AS each
                 WHERE each.key = ? AND ({" OR ".join(claims) or "false"}))"""
    return clause, bound


def _by_kind(values: Iterable[MetaValue]) -> dict[str, list[MetaValue]]:
    kinds: dict[str, list[MetaValue]] = {}
    for value in values:
        kinds.setdefault(value_kind(value), []).append(value)
    return kinds


@cache
def _own_schema() -> frozenset[tuple[str, ...]]:
    """The tables and indexes of an index."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(TABLES)
        return _schema(db)


def _schema(db: sqlite3.Connection) -> frozenset[tuple[str, ...]]:
    """Kind, name, table and definition of all that a database has, and nothing of it is run."""
    rows = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    return frozenset(tuple(" ".join(str(cell).split()) for cell in row) for row in rows)


# ── segments ─────────────────────────────────────────────────────────────────────────────────────

Segment = tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.float16]]
"""Numbers of passages (n,), their lengths in terms (n,), and their vectors (n, D)."""


@dataclass(frozen=True, slots=True)
class PassageRows:
    """What searches work on: all passages that are not deleted, in order of their numbers."""

    ids: NDArray[np.int64]  # (N,)
    lengths: NDArray[np.float64]  # (N,) terms
    vectors: Vectors  # (N, D)
    first_segment: int
    last_segment: int

    @classmethod
    def read(cls, db: sqlite3.Connection, size: int, old: PassageRows | None = None) -> PassageRows:
        """Read all rows; given an earlier result, read only what was added since.

        ValueError if they do not fit together. They cannot take more bytes than `size`, the file's.
        """
        (first,) = db.execute("SELECT coalesce(min(id), 0) FROM segments").fetchone()
        if old is not None and first != old.first_segment:
            old = None  # segments were merged
        last = -1 if old is None else old.last_segment
        parts = [] if old is None else [(old.ids, old.lengths, old.vectors)]
        for number, segment in _read_segments(db, last):
            last = number
            size -= sum(each.nbytes for each in segment)
            if size < 0:
                raise ValueError("its segments are larger than the file")
            if len(segment[1]) != len(segment[0]) or not np.isfinite(segment[2]).all():
                raise ValueError(f"segment {number} has wrong lengths or vectors")
            parts.append((segment[0], segment[1].astype(np.float64), segment[2].astype(np.float32)))
        if not parts:
            return cls(np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 0), np.float32), first, -1)
        ids, lengths, vectors = (np.concatenate(each) for each in zip(*parts, strict=True))
        del parts
        if not (ids[1:] > ids[:-1]).all():
            raise ValueError("its passages are not in order")
        alive = _live_passages(db)
        if len(alive) < len(ids):
            kept = np.isin(ids, alive)
            ids, lengths, vectors = ids[kept], lengths[kept], vectors[kept]
        return cls(ids, lengths, vectors, first, last)

    def find(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Rows of those passages that are here, and which ones these are, (n,)."""
        if len(self.ids) == 0:
            return np.zeros(0, np.intp), np.zeros(len(numbers), np.bool_)
        at = np.minimum(np.searchsorted(self.ids, numbers), len(self.ids) - 1)
        found = self.ids[at] == numbers
        return at[found], found


def _live_passages(db: sqlite3.Connection) -> NDArray[np.int64]:
    return np.fromiter((number for (number,) in db.execute("SELECT id FROM passages")), np.int64)


def _read_segments(
    db: sqlite3.Connection, after: int = -1, last: int = 2**62
) -> Iterator[tuple[int, Segment]]:
    query = "SELECT * FROM segments WHERE id > ? AND id <= ? ORDER BY id"
    for number, ids, lengths, vectors in db.execute(query, (after, last)):
        numbers = np.frombuffer(ids, SEGMENT[0])
        matrix = np.frombuffer(vectors, SEGMENT[2]).reshape(len(numbers), -1)
        yield number, (numbers, np.frombuffer(lengths, SEGMENT[1]), matrix)


def _write_segment(db: sqlite3.Connection, *segment: NDArray[Any]) -> int | None:
    blobs = [each.astype(kind).tobytes() for each, kind in zip(segment, SEGMENT, strict=True)]
    query = "INSERT INTO segments (ids, lengths, vectors) VALUES (?, ?, ?)"
    return db.execute(query, blobs).lastrowid


def _needs_merging(db: sqlite3.Connection) -> bool:
    """Whether a third of the rows is deleted, or segments are many and small."""
    query = "SELECT count(*), coalesce(sum(length(ids)) / 8, 0) FROM segments"
    segments, rows = db.execute(query).fetchone()
    (live,) = db.execute("SELECT count(*) FROM passages").fetchone()
    is_split = segments > MANY_SEGMENTS and rows < segments * MERGED_ROWS / 16
    return bool(rows > 1.5 * live or is_split)


def _merge_segments(db: sqlite3.Connection) -> None:
    """Rewrite segments and postings without deleted passages, inside the caller's transaction."""
    alive = _live_passages(db)
    (last,) = db.execute("SELECT coalesce(max(id), 0) FROM segments").fetchone()
    held: list[list[NDArray[Any]]] = []
    for number, segment in _read_segments(db, last=last):
        kept = np.isin(segment[0], alive)
        held.append([each[kept] for each in segment])
        if number == last or sum(len(each[0]) for each in held) >= MERGED_ROWS:
            merged = [np.concatenate(each) for each in zip(*held, strict=True)]
            if len(merged[0]):
                _write_segment(db, *merged)
            held = []
    db.execute("DELETE FROM segments WHERE id <= ?", (last,))

    # One list per term, in order of terms: only one term at a time is in memory.
    db.execute("ALTER TABLE postings RENAME TO old_postings")
    db.execute(f"CREATE TABLE {POSTINGS}")
    pairs = db.execute("SELECT term, rows FROM old_postings ORDER BY term, segment")
    for term, group in groupby(pairs, key=lambda pair: pair[0]):
        rows = np.frombuffer(b"".join(blob for _, blob in group), POSTING)
        rows = rows[np.isin(rows["id"], alive)]
        if len(rows):
            db.execute("INSERT INTO postings VALUES (?, 0, ?)", (term, rows.tobytes()))
    db.execute("DROP TABLE old_postings")
