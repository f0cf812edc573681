"""The default store: one SQLite file, searched exactly.

SQLite keeps everything safe; searching happens in memory, where the vectors of 100,000 passages of
width 256 take 100 MB and one matrix product finds the nearest in a few milliseconds:

    documents, passages    a row each
    segments               the vectors of the passages that one transaction added, as one blob
    postings               per term and segment: which passages hold it, how often

A segment is never changed. A deleted passage leaves its rows behind, which no search sees, until
`tidy` writes the segments anew (`compact.py`). A reader notices what other processes write.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from relmo.errors import ConfigError, OutputError
from relmo.search.bm25 import bm25, ranked
from relmo.search.compact import compact, is_wasteful
from relmo.search.documents import Passage
from relmo.search.filters import Condition
from relmo.search.rows import POSTING, Rows
from relmo.search.sqlite_filters import to_sql
from relmo.search.store import BEGUN, Counts, Entry, Found, Scored
from relmo.types import Vectors

MARK = 0x72656C6D
"""SQLite's application id: "relm". A file without it is not an index."""
WAIT_SECONDS = 60.0
"""How long a writer waits for another."""
ANSWERS = 16
"""Filters whose rows are remembered."""
TABLES = """
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
CREATE TABLE IF NOT EXISTS postings (
    term TEXT NOT NULL, segment INTEGER NOT NULL, rows BLOB NOT NULL, PRIMARY KEY (term, segment)
) WITHOUT ROWID;
"""


class EmbeddedStore:
    """An index in one file.

    Args:
        path: the file.
        create: make it where there is none.
    """

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        self.path = Path(path)
        if not create and not self.path.is_file():
            raise ConfigError(
                f"{path}: no such index; make one with: relmo index PATH --out {path}"
            )
        self._lock = threading.RLock()
        self._rows: Rows | None = None
        self._answers: dict[str, NDArray[np.intp]] = {}
        self._version = -1
        self._is_new = False
        try:
            self._db = sqlite3.connect(
                self.path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            said = "it is a folder; give a file" if self.path.is_dir() else "is its folder there?"
            raise OutputError(f"{path}: {error}; {said}") from error
        try:
            self._prepare(create)
        except BaseException:
            self._db.close()
            raise

    def _prepare(self, create: bool) -> None:
        with self._explained():
            try:
                (mark,) = self._db.execute("PRAGMA application_id").fetchone()
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
                    raise
                raise ConfigError(
                    f"{self.path} is not an index of relmo's; choose another file"
                ) from error
            (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if mark != MARK and (tables or not create):
                raise ConfigError(f"{self.path} is not an index of relmo's; choose another file")
            self._db.execute("PRAGMA synchronous = FULL")  # acknowledged means on the disk
            if create and not tables:
                self._is_new = True
                self._db.execute("PRAGMA journal_mode = WAL")  # readers go on while one writes
                with self._transaction():
                    for statement in TABLES.split(";\n"):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA application_id = {MARK}")

    # ── writing ─────────────────────────────────────────────────────────────────────────────

    def write_about(self, settings: str, arrays: bytes) -> None:
        """Set how the index was made, once."""
        with self._transaction():
            row = (settings, arrays)
            if not self._db.execute("INSERT OR IGNORE INTO about VALUES (1, ?, ?)", row).rowcount:
                raise OutputError(f"{self.path}: {BEGUN}")

    def replace(self, entries: Sequence[Entry], gone: Sequence[str] = ()) -> None:
        """Delete documents and add others, in one transaction."""
        with self._transaction():
            for key in gone:
                self._delete(key)
            ids = [number for entry in entries for number in self._insert(entry)]
            if not ids:
                return
            terms = [Counter(each) for entry in entries for each in entry.terms]
            vectors = np.concatenate([entry.vectors for entry in entries])
            segment = self._db.execute(
                "INSERT INTO segments (ids, lengths, vectors) VALUES (?, ?, ?)",
                (
                    np.array(ids, "<i8").tobytes(),
                    np.array([each.total() for each in terms], "<u4").tobytes(),
                    vectors.astype("<f2").tobytes(),
                ),
            ).lastrowid
            lists: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
            for number, counts in zip(ids, terms, strict=True):
                for term, count in counts.items():
                    lists[term].append((number, count))
            self._db.executemany(
                "INSERT INTO postings VALUES (?, ?, ?)",
                ((t, segment, np.array(rows, POSTING).tobytes()) for t, rows in lists.items()),
            )

    def _delete(self, key: str) -> None:
        row = self._db.execute("SELECT id FROM documents WHERE key = ?", (key,)).fetchone()
        if row is not None:
            self._db.execute("DELETE FROM passages WHERE document = ?", row)
            self._db.execute("DELETE FROM documents WHERE id = ?", row)

    def _insert(self, entry: Entry) -> Iterator[int]:
        document = entry.document
        self._delete(document.key)
        number = self._db.execute(
            "INSERT INTO documents (key, source, digest, meta) VALUES (?, ?, ?, ?)",
            (document.key, document.source, document.digest, json.dumps(dict(document.meta))),
        ).lastrowid
        for each in entry.passages:
            added = self._db.execute(
                "INSERT INTO passages (document, start, stop, line, text) VALUES (?, ?, ?, ?, ?)",
                (number, each.start, each.end, each.line, each.text),
            ).lastrowid
            assert added is not None
            yield added

    def tidy(self) -> None:
        """Drop what deleted passages left behind, and join small segments, where it is worth it."""
        with self._lock:
            if is_wasteful(self._db):
                with self._transaction():
                    compact(self._db)
                self._rows = None
            with self._explained():
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # ── reading ─────────────────────────────────────────────────────────────────────────────

    def read_about(self) -> tuple[str, bytes] | None:
        """How the index was made."""
        with self._explained():
            row = self._db.execute("SELECT settings, arrays FROM about").fetchone()
        return None if row is None else (row[0], row[1])

    def sources(self) -> list[str]:
        """Where documents came from."""
        with self._explained():
            rows = self._db.execute("SELECT DISTINCT source FROM documents ORDER BY source")
            return [source for (source,) in rows]

    def digests(self, source: str) -> dict[str, str]:
        """Key -> digest of the documents of one source."""
        with self._explained():
            query = "SELECT key, digest FROM documents WHERE source = ?"
            return dict(self._db.execute(query, (source,)))

    def meta_keys(self) -> list[str]:
        """What filters can ask for."""
        with self._explained():
            query = "SELECT DISTINCT each.key FROM documents, json_each(meta) AS each"
            return sorted(key for (key,) in self._db.execute(query))

    def counts(self) -> Counts:
        """How much there is."""
        with self._explained():
            query = "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM passages)"
            return Counts(*self._db.execute(query).fetchone())

    def nearest(self, query: Vectors, count: int, where: Sequence[Condition] = ()) -> list[Scored]:
        """Passages by inner product with the query, best first."""
        with self._explained():
            rows = self._current()
            if len(rows.ids) == 0:
                return []
            rounded = query.astype(np.float16).astype(np.float32)  # as the vectors are kept
            # torch's threads, as in embedding: numpy's own would contend with them
            scores = torch.mv(torch.from_numpy(rows.vectors), torch.from_numpy(rounded)).numpy()
            if not where:
                return ranked(rows.ids, scores, count)
            kept = self._allowed(where)
            return ranked(rows.ids[kept], scores[kept], count)

    def matching(
        self, terms: Sequence[str], count: int, where: Sequence[Condition] = ()
    ) -> list[Scored]:
        """Passages that hold one of the terms, by BM25."""
        with self._explained():
            rows = self._current()
            if len(rows.ids) == 0:
                return []
            query = Counter(terms)
            scores = np.zeros(len(rows.ids))  # (N,)
            for term, weight in query.items():
                at, frequency = rows.live(self._postings(term))
                scores[at] += weight * bm25(
                    frequency, rows.lengths[at], rows.mean_length, len(scores)
                )
            kept = np.flatnonzero(scores)
            if where:
                kept = np.intersect1d(kept, self._allowed(where))
            return ranked(rows.ids[kept], scores[kept], count)

    def vectors(self, passages: Sequence[int]) -> Vectors:
        """The vectors of passages by number, (n, D)."""
        with self._explained():
            return self._current().vectors_of(np.array(passages, dtype=np.int64))

    def found(self, passages: Sequence[int]) -> list[Found | None]:
        """Passages with their documents, by number."""
        query = """SELECT key, source, meta, start, stop, line, text
                   FROM passages JOIN documents ON documents.id = document WHERE passages.id = ?"""
        with self._explained():
            rows = [self._db.execute(query, (number,)).fetchone() for number in passages]
        return [
            Found(row[0], row[1], json.loads(row[2]), Passage(*row[3:])) if row else None
            for row in rows
        ]

    def discard(self) -> None:
        """Take a new file away again, if nothing was written into it."""
        with self._lock:
            if self._is_new and self.read_about() is None:
                self.close()
                for suffix in ("", "-wal", "-shm"):
                    Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._rows = None
            self._db.close()

    def _postings(self, term: str) -> NDArray[np.void]:
        found = self._db.execute("SELECT rows FROM postings WHERE term = ?", (term,))
        return np.frombuffer(b"".join(rows for (rows,) in found), POSTING)

    def _allowed(self, where: Sequence[Condition]) -> NDArray[np.intp]:
        """Rows whose documents meet all conditions; remembered until something is written."""
        asked = repr(where)  # 1 and True are equal, and not the same
        if asked in self._answers:
            return self._answers[asked]
        clause, values = to_sql(where)
        query = f"""SELECT passages.id FROM passages JOIN documents ON documents.id = document
                    WHERE {clause}"""
        found = self._db.execute(query, values)
        places = self._current().places(np.fromiter((number for (number,) in found), np.int64))
        if len(self._answers) >= ANSWERS:
            self._answers.clear()
        self._answers[asked] = places
        return places

    def _current(self) -> Rows:
        """The rows in memory, read again if this or another process has written."""
        (version,) = self._db.execute("PRAGMA data_version").fetchone()
        if self._rows is None or version != self._version:
            self._answers.clear()
            self._rows = Rows.read(self._db, self._rows)
            self._version = version
        return self._rows

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
            self._version = -1

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """One thread at a time; SQLite's errors with the file they are about."""
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                raise OutputError(
                    f"{self.path}: {error}; is there room, is it writable?"
                ) from error
