"""A store for more than one machine: PostgreSQL with pgvector, read by many while one writes.

The tables are those of `sqlite.py`, in a schema of their own; vectors are pgvector's `halfvec`,
terms an array with a GIN index, from which BM25 is computed in SQL. Searches are exact until
`optimize` finds HNSW_FROM passages; from then on an HNSW index finds the nearest, approximately.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import numpy as np

from relmo.errors import ConfigError, OutputError, need_extra
from relmo.search.filters import Condition, Conditions, to_sql
from relmo.search.lexical import K1, B
from relmo.search.store import (
    Entry,
    Scored,
    SearchTimeout,
    Store,
    Terms,
    busy,
    rank,
    this_process,
    weights_of,
    without_password,
)
from relmo.types import Vectors

if TYPE_CHECKING:
    import psycopg

HNSW_FROM = 50_000
"""Number of passages from which an approximate index is worthwhile."""
LOCKS = 0x72656C6D
"""First number of relmo's advisory locks: "relm"."""
EXTRA_HITS = 16
"""Hits requested beyond those wanted, so that ties are ordered as in every store."""
TABLES = """
CREATE TABLE about (one int PRIMARY KEY CHECK (one = 1), settings text, arrays bytea);
CREATE TABLE documents (
    id bigserial PRIMARY KEY, key text UNIQUE NOT NULL, source text NOT NULL,
    digest text NOT NULL, meta jsonb NOT NULL);
CREATE INDEX documents_source ON documents (source);
CREATE INDEX documents_meta ON documents USING gin (meta jsonb_path_ops);
CREATE TABLE passages (
    id bigserial PRIMARY KEY, document bigint NOT NULL REFERENCES documents ON DELETE CASCADE,
    start int NOT NULL, stop int NOT NULL, line int NOT NULL, text text NOT NULL,
    length int NOT NULL, terms text[] NOT NULL, vector halfvec NOT NULL);
CREATE INDEX passages_document ON passages (document);
CREATE INDEX passages_terms ON passages USING gin (terms)
"""
MATCHING = """
WITH stats AS (SELECT count(*)::float8 AS total, avg(length)::float8 AS mean FROM passages),
hits AS (
    SELECT id, document, length, term, count(*)::float8 AS often
    FROM passages CROSS JOIN LATERAL unnest(terms) AS held(term)
    WHERE terms && ?::text[] AND term = ANY(?::text[])
    GROUP BY id, document, length, term),
rarity AS (
    SELECT term, ln(1 + (total - count(*) + 0.5) / (count(*) + 0.5)) AS rare
    FROM hits CROSS JOIN stats GROUP BY term, total),
scored AS (
    SELECT id, document, sum(weight * rare * often * ({k1} + 1)
        / (often + {k1} * (1 - {b} + {b} * length / mean))) AS score
    FROM hits JOIN rarity USING (term)
    JOIN unnest(?::text[], ?::float8[]) AS asked(term, weight) USING (term)
    CROSS JOIN stats GROUP BY id, document)
SELECT scored.id, score FROM scored JOIN documents ON documents.id = document
WHERE {where} ORDER BY round(score::numeric, 5) DESC, scored.id LIMIT ?
"""
"""Parameters: terms, terms, terms and their weights, those of the filter, number of hits."""
FLUSH = """
SELECT gin_clean_pending_list(oid) FROM pg_class
WHERE oid = 'passages_terms'::regclass AND pg_has_role(relowner, 'USAGE')
"""
"""Terms of new passages are in a list at first, which each look at a term reads from end to end;
only the owner may sort them in."""
OCCURRENCES = """
SELECT term, (SELECT count(*) FROM passages WHERE terms @> ARRAY[term])
FROM unnest(?::text[]) AS asked(term)
"""
"""Parameter: terms."""


class PostgresStore(Store):
    """An index in a database: postgresql://user@host/database, `?relmo_index=NAME` for several."""

    META_KEYS = "SELECT DISTINCT jsonb_object_keys(meta) FROM documents"

    def __init__(self, address: str, *, create: bool = False) -> None:
        need_extra("server-store")
        import psycopg

        self.ERROR = psycopg.Error
        self._address, self._schema = split_address(address)
        self._is_locked = False
        try:
            super().__init__(without_password(self._address), create)
        except psycopg.Error as error:
            raise ConfigError(f"{self.name}: {error}; check the address") from error

    def _connect(self) -> psycopg.Connection[Any]:
        import psycopg

        return psycopg.connect(self._address, autocommit=True, application_name=this_process())

    def lock(self) -> None:
        """Exclude other processes that write: a lock of the connection, named after the schema."""
        if self._is_locked:
            return
        with self._session():
            (self._is_locked,) = self._run(
                f"SELECT pg_try_advisory_lock({LOCKS}, hashtext(?))", (self._schema,)
            ).fetchone() or (False,)
            if not self._is_locked:
                query = f"""SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
                            WHERE classid = {LOCKS} AND objid = hashtext(?)::bigint & 4294967295
                            AND granted AND locktype = 'advisory'"""
                row = self._run(query, (self._schema,)).fetchone()
                raise OutputError(busy(self.name, (row and row[0]) or "another process"))

    def unlock(self) -> None:
        """Let other processes write."""
        if self._is_locked:
            with self._session():
                query = f"SELECT pg_advisory_unlock({LOCKS}, hashtext(?))"
                self._run(query, (self._schema,))
            self._is_locked = False

    def _prepare(self, create: bool) -> None:
        query = "SELECT 1 FROM pg_namespace WHERE nspname = ?"
        found = self._run(query, (self._schema,)).fetchone()
        if not create and found is None:
            raise ConfigError(
                f"{self.name}: no index {self._schema!r}; create one with: relmo index --store"
            )
        if create and found is None:
            with self._db.transaction():
                self._run("CREATE EXTENSION IF NOT EXISTS vector")
                self._run(f'CREATE SCHEMA IF NOT EXISTS "{self._schema}"')
                self._run(f'SET LOCAL search_path TO "{self._schema}", public')
                for statement in TABLES.split(";\n"):
                    self._run(statement)
        self._configure()

    def _configure(self) -> None:
        """Settings of one connection."""
        self._run(f'SET search_path TO "{self._schema}", public')
        self._run("SET hnsw.ef_search = 200")
        self._run("SET hnsw.iterative_scan = strict_order")  # filtered searches find enough

    def _run(self, query: str, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        statement = query.replace("?", "%s").encode()
        return cast("psycopg.Cursor[Any]", self._db.execute(statement, values or None))

    def _check_connection(self) -> None:
        """Connect again if the connection was lost: a server outlives restarts of its database."""
        if self._db.closed and not self._db.broken:
            return  # closed by `close`
        try:
            self._run("SELECT 1")
        except self.ERROR:
            self._db.close()
            self._db = self._connect()
            self._configure()
            if self._is_locked:  # the lock went with the connection
                self._is_locked = False
                self.lock()

    def interrupt(self) -> None:
        """End what another thread does with the database, with an error there."""
        self._db.cancel()

    @contextmanager
    def deadline(self, seconds: float) -> Iterator[None]:
        """Within the block, `SearchTimeout` ends a query that takes longer."""
        with self._session():
            self._run(f"SET statement_timeout = {math.ceil(seconds * 1000)}")
        try:
            yield
        finally:
            with self._session():
                self._run("RESET statement_timeout")

    @contextmanager
    def one_state(self) -> Iterator[None]:
        """Within the block, one state of the index is read, whatever other processes write."""
        with self._session(), self._db.transaction():
            self._run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield

    def _failure(self, error: Exception) -> BaseException:
        from psycopg.errors import QueryCanceled

        if isinstance(error, QueryCanceled):
            return SearchTimeout(f"{self.name}: {error}")
        return super()._failure(error)

    def _drop(self) -> None:
        with self._session():
            self._run(f'DROP SCHEMA "{self._schema}" CASCADE')

    # ── writing ─────────────────────────────────────────────────────────────────────────────

    def replace(self, entries: Sequence[Entry], delete: Sequence[str] = ()) -> None:
        """Delete documents and add others, in one transaction."""
        with self._session(), self._db.transaction():
            self._delete(list(delete))
            for entry in entries:
                self._insert(entry)

    def _delete(self, keys: list[str]) -> None:
        if keys:
            self._run("DELETE FROM documents WHERE key = ANY(?)", (keys,))  # passages follow

    def _insert(self, entry: Entry) -> None:
        document = entry.document
        self._delete([document.key])
        [(number,)] = self._run(
            "INSERT INTO documents (key, source, digest, meta) VALUES (?, ?, ?, ?) RETURNING id",
            (document.key, document.source, document.digest, json.dumps(dict(document.meta))),
        )
        rows = [
            (number, p.start, p.end, p.line, p.text.replace("\0", "�"), len(terms), list(terms), v)
            for p, terms, v in zip(
                entry.passages, entry.terms, map(_halfvec, entry.vectors), strict=True
            )
        ]
        with self._db.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO passages (document, start, stop, line, text, length, terms, vector) "
                "VALUES (%s, %s, %s, %s, %s, %s, %s::text[], %s::halfvec)",
                rows,
            )

    def optimize(self) -> None:
        """Sort recent terms into their index; build the approximate one from HNSW_FROM passages."""
        count, header = self.counts().passages, self.read_header()
        with self._session():
            self._run("ANALYZE documents, passages")
            self._run(FLUSH)
            if count >= HNSW_FROM and header is not None:
                width = int(json.loads(header[0])["width"])
                self._run(
                    "CREATE INDEX IF NOT EXISTS passages_vector ON passages USING hnsw "
                    f"((vector::halfvec({width})) halfvec_ip_ops)"
                )

    # ── searching ───────────────────────────────────────────────────────────────────────────

    def nearest(self, query: Vectors, count: int, where: Conditions = ()) -> list[Scored]:
        """Passages by inner product with the query, best first."""
        product = f"vector::halfvec({len(query)}) <#> ?::halfvec({len(query)})"
        clause, values = to_sql(where, _compare)
        joined = f"JOIN documents ON documents.id = document WHERE {clause}" if where else ""
        sql = f"""SELECT passages.id, -({product}) FROM passages {joined}
                  ORDER BY {product}, passages.id LIMIT ?"""
        vector = _halfvec(query)
        return self._ranked(sql, (vector, *values, vector, count + EXTRA_HITS), count)

    def matching(self, terms: Terms, count: int, where: Conditions = ()) -> list[Scored]:
        """Passages that contain one of the terms, by BM25."""
        clause, values = to_sql(where, _compare)
        asked = weights_of(terms)
        names, weights = list(asked), [float(each) for each in asked.values()]
        sql = MATCHING.format(where=clause, k1=K1, b=B)
        return self._ranked(sql, (names, names, names, weights, *values, count + EXTRA_HITS), count)

    def occurrences(self, terms: Collection[str]) -> dict[str, int]:
        """In how many passages each term occurs: one look at the GIN index for each term."""
        with self._session(), self._db.transaction():
            self._run("SET LOCAL enable_seqscan = off")  # not all passages for each term
            found = self._run(OCCURRENCES, (list(terms),)).fetchall()
            self._run("RESET enable_seqscan")  # the transaction may be a part of another one
        return {term: count for term, count in found if count}

    def _ranked(self, sql: str, values: Sequence[Any], count: int) -> list[Scored]:
        with self._session():
            rows = self._run(sql, values).fetchall()
        ids = np.array([row[0] for row in rows], dtype=np.int64)
        return rank(ids, np.array([row[1] for row in rows], dtype=np.float64), count)

    def vectors(self, passages: Sequence[int]) -> Vectors:
        """The vectors of passages by number, (n, D)."""
        with self._session():
            query = "SELECT id, vector::text FROM passages WHERE id = ANY(?)"
            found = {
                number: np.array(json.loads(written), dtype=np.float32)
                for number, written in self._run(query, (list(passages),))
            }
        width = len(next(iter(found.values()))) if found else 0
        return np.stack([found.get(each, np.zeros(width, np.float32)) for each in passages])


def split_address(address: str) -> tuple[str, str]:
    """The address for PostgreSQL, and the schema that `relmo_index` in it names."""
    parts = urlsplit(address)
    options = dict(parse_qsl(parts.query))
    name = options.pop("relmo_index", "index")
    if not re.fullmatch(r"[a-z0-9_]{1,40}", name):
        raise ConfigError(
            f"invalid relmo_index {name!r}; use up to 40 lower-case letters, digits and _"
        )
    return urlunsplit(parts._replace(query=urlencode(options, quote_via=quote))), f"relmo_{name}"


def _compare(condition: Condition) -> tuple[str, list[Any]]:
    """One condition on the JSON in `documents.meta`, as SQL with its parameters."""
    key, operator, values = condition.key, condition.operator, condition.values
    if operator in ("=", "!="):
        claim = "NOT meta @> ANY(?::jsonb[])" if operator == "!=" else "meta @> ANY(?::jsonb[])"
        return claim, [[json.dumps({key: value}) for value in values]]
    (value,) = values
    if isinstance(value, str):
        kind, left = "string", 'meta ->> ? COLLATE "C"'
    else:
        kind, left = "number", "(meta ->> ?)::numeric"
    claim = f"CASE WHEN jsonb_typeof(meta -> ?) = '{kind}' THEN {left} {operator} ? ELSE false END"
    return claim, [key, key, value]


def _halfvec(vector: Vectors) -> str:
    """A vector as pgvector reads it."""
    return "[" + ",".join(f"{x:.8g}" for x in vector.astype(np.float16).astype(float)) + "]"
