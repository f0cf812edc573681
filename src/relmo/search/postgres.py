"""A store beyond one machine: PostgreSQL with pgvector, searched by many, written while read.

The tables are those of `embedded.py`, in a schema of their own; vectors are pgvector's `halfvec`,
terms an array under a GIN index, from which BM25 is computed in SQL. Searching is exact until
`tidy` finds HNSW_FROM passages; from then on an HNSW index finds the nearest, nearly always.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from relmo.errors import ConfigError, OutputError, need_extra
from relmo.search.addresses import take_schema, without_password
from relmo.search.bm25 import ranked
from relmo.search.documents import Passage
from relmo.search.filters import Condition
from relmo.search.postgres_sql import MATCHING, TABLES, to_sql
from relmo.search.store import BEGUN, K1, B, Counts, Entry, Found, Scored
from relmo.types import Vectors

if TYPE_CHECKING:
    import psycopg

HNSW_FROM = 50_000
"""Passages from which on an approximate index pays."""
SPARE = 16
"""Hits asked for beyond those wanted, so that equal scores are ordered as everywhere."""


class PostgresStore:
    """An index in a database.

    Args:
        address: postgresql://user@host/database; `?relmo_index=NAME` where it holds several.
        create: make it where there is none.
    """

    def __init__(self, address: str, *, create: bool = False) -> None:
        need_extra("server-store")
        import psycopg

        self._address, self._schema = take_schema(address)
        self._lock = threading.RLock()
        self._is_new = False
        self._error = psycopg.Error
        self._depth = 0
        self._connect_to: Callable[[], psycopg.Connection[Any]] = partial(
            psycopg.connect, self._address, autocommit=True
        )
        try:
            self._db = self._connect_to()
        except psycopg.Error as error:
            raise ConfigError(f"{self._shown}: {error}; is the address right?") from error
        try:
            self._prepare(create)
        except BaseException:
            self._db.close()
            raise

    def _prepare(self, create: bool) -> None:
        with self._explained():
            found = self._one("SELECT 1 FROM pg_namespace WHERE nspname = %s", (self._schema,))
            if not create and found is None:
                raise ConfigError(
                    f"{self._shown}: no index {self._schema!r}; make one with relmo index --store"
                )
            if create and found is None:
                with self._db.transaction():
                    self._run("CREATE EXTENSION IF NOT EXISTS vector")
                    self._run(f'CREATE SCHEMA IF NOT EXISTS "{self._schema}"')
                    self._run(f'SET LOCAL search_path TO "{self._schema}", public')
                    for statement in TABLES.split(";\n"):
                        self._run(statement)
                self._is_new = True
            self._set_up()

    def _set_up(self) -> None:
        """What holds for one connection."""
        self._run(f'SET search_path TO "{self._schema}", public')
        self._run("SET hnsw.ef_search = 200")
        self._run("SET hnsw.iterative_scan = strict_order")  # filters find enough

    # ── writing ─────────────────────────────────────────────────────────────────────────────

    def write_about(self, settings: str, arrays: bytes) -> None:
        """Set how the index was made, once."""
        query = "INSERT INTO about VALUES (1, %s, %s) ON CONFLICT (one) DO NOTHING"
        with self._explained():
            if not self._run(query, (settings, arrays)).rowcount:
                raise OutputError(f"{self._shown}: {BEGUN}")

    def replace(self, entries: Sequence[Entry], gone: Sequence[str] = ()) -> None:
        """Delete documents and add others, in one transaction."""
        with self._explained(), self._db.transaction():
            self._delete(list(gone))
            for entry in entries:
                self._insert(entry)

    def _delete(self, keys: list[str]) -> None:
        if keys:
            self._run("DELETE FROM documents WHERE key = ANY(%s)", (keys,))  # passages follow

    def _insert(self, entry: Entry) -> None:
        document = entry.document
        self._delete([document.key])
        row = self._one(
            "INSERT INTO documents (key, source, digest, meta) VALUES (%s, %s, %s, %s) "
            "RETURNING id",
            (document.key, document.source, document.digest, json.dumps(dict(document.meta))),
        )
        assert row is not None
        rows = [
            (row[0], p.start, p.end, p.line, p.text.replace("\0", "�"), len(terms), list(terms), v)
            for p, terms, v in zip(
                entry.passages, entry.terms, map(_written, entry.vectors), strict=True
            )
        ]
        with self._db.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO passages (document, start, stop, line, text, length, terms, vector) "
                "VALUES (%s, %s, %s, %s, %s, %s, %s::text[], %s::halfvec)",
                rows,
            )

    def tidy(self) -> None:
        """Build the approximate index once there is enough to search."""
        count = self.counts().passages
        with self._explained():
            self._run("ANALYZE documents, passages")
            about = self._one("SELECT settings FROM about")
            if count >= HNSW_FROM and about is not None:
                width = int(json.loads(about[0])["width"])
                self._run(
                    "CREATE INDEX IF NOT EXISTS passages_vector ON passages USING hnsw "
                    f"((vector::halfvec({width})) halfvec_ip_ops)"
                )

    # ── reading ─────────────────────────────────────────────────────────────────────────────

    def read_about(self) -> tuple[str, bytes] | None:
        """How the index was made."""
        with self._explained():
            row = self._one("SELECT settings, arrays FROM about")
        return None if row is None else (row[0], bytes(row[1]))

    def sources(self) -> list[str]:
        """Where documents came from."""
        with self._explained():
            query = 'SELECT DISTINCT source COLLATE "C" AS source FROM documents ORDER BY source'
            return [source for (source,) in self._run(query)]

    def digests(self, source: str) -> dict[str, str]:
        """Key -> digest of the documents of one source."""
        with self._explained():
            query = "SELECT key, digest FROM documents WHERE source = %s"
            return dict(self._run(query, (source,)).fetchall())

    def meta_keys(self) -> list[str]:
        """What filters can ask for."""
        with self._explained():
            query = "SELECT DISTINCT jsonb_object_keys(meta) FROM documents"
            return sorted(key for (key,) in self._run(query))

    def counts(self) -> Counts:
        """How much there is."""
        with self._explained():
            query = "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM passages)"
            return Counts(*(self._one(query) or (0, 0)))

    def nearest(self, query: Vectors, count: int, where: Sequence[Condition] = ()) -> list[Scored]:
        """Passages by inner product with the query, best first."""
        clause, values = to_sql(where)
        product = f"vector::halfvec({len(query)}) <#> %s::halfvec({len(query)})"
        asked = f"""SELECT passages.id, -({product}) FROM passages
                    JOIN documents ON documents.id = document WHERE {clause}
                    ORDER BY {product}, passages.id LIMIT %s"""
        if not where:
            asked = f"SELECT id, -({product}) FROM passages ORDER BY {product}, id LIMIT %s"
        vector = _written(query)
        with self._explained():
            rows = self._run(asked, (vector, *values, vector, count + SPARE)).fetchall()
        return _ranked(rows, count)

    def matching(
        self, terms: Sequence[str], count: int, where: Sequence[Condition] = ()
    ) -> list[Scored]:
        """Passages that hold one of the terms, by BM25."""
        clause, values = to_sql(where)
        asked = Counter(terms)
        names, weights = list(asked), [float(each) for each in asked.values()]
        query = MATCHING.format(where=clause, k1=K1, b=B)
        with self._explained():
            parameters = (names, names, names, weights, *values, count + SPARE)
            rows = self._run(query, parameters).fetchall()
        return _ranked(rows, count)

    def vectors(self, passages: Sequence[int]) -> Vectors:
        """The vectors of passages by number, (n, D)."""
        with self._explained():
            query = "SELECT id, vector::text FROM passages WHERE id = ANY(%s)"
            found = {
                number: np.array(json.loads(written), dtype=np.float32)
                for number, written in self._run(query, (list(passages),))
            }
        width = len(next(iter(found.values()))) if found else 0
        return np.stack([found.get(each, np.zeros(width, np.float32)) for each in passages])

    def found(self, passages: Sequence[int]) -> list[Found | None]:
        """Passages with their documents, by number."""
        query = """SELECT passages.id, key, source, meta, start, stop, line, text
                   FROM passages JOIN documents ON documents.id = document
                   WHERE passages.id = ANY(%s)"""
        with self._explained():
            rows = self._run(query, (list(passages),)).fetchall()
        found = {row[0]: Found(row[1], row[2], row[3], Passage(*row[4:])) for row in rows}
        return [found.get(each) for each in passages]

    def discard(self) -> None:
        """Take a new schema away again, if nothing was written into it."""
        if self._is_new and self.read_about() is None:
            with self._explained():
                self._run(f'DROP SCHEMA "{self._schema}" CASCADE')

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            self._db.close()

    @property
    def _shown(self) -> str:
        return without_password(self._address)

    def _run(self, query: str, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        return self._db.execute(query.encode(), values or None)

    def _one(self, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._run(query, values).fetchone()
        return row

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """One thread at a time; the database's errors with the address they are about."""
        with self._lock:
            self._depth += 1
            try:
                if self._depth == 1:
                    self._reach()
                yield
            except self._error as error:
                raise OutputError(f"{self._shown}: {error}") from error
            finally:
                self._depth -= 1

    def _reach(self) -> None:
        """Connect anew where the connection was lost: a server outlives its database's restart."""
        if self._db.closed and not self._db.broken:
            return  # by us
        try:
            self._run("SELECT 1")
        except self._error:
            self._db.close()
            self._db = self._connect_to()
            self._set_up()


def _written(vector: Vectors) -> str:
    """A vector as pgvector reads it."""
    return "[" + ",".join(f"{x:.8g}" for x in vector.astype(np.float16).astype(float)) + "]"


def _ranked(rows: Sequence[tuple[int, float]], count: int) -> list[Scored]:
    ids = np.array([row[0] for row in rows], dtype=np.int64)
    return ranked(ids, np.array([row[1] for row in rows], dtype=np.float64), count)
