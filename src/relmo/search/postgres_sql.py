"""The SQL of the PostgreSQL store: its tables, BM25, and conditions on metadata."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from relmo.search.documents import Value
from relmo.search.filters import Condition

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
    WHERE terms && %s::text[] AND term = ANY(%s::text[])
    GROUP BY id, document, length, term),
rarity AS (
    SELECT term, ln(1 + (total - count(*) + 0.5) / (count(*) + 0.5)) AS rare
    FROM hits CROSS JOIN stats GROUP BY term, total),
scored AS (
    SELECT id, document, sum(weight * rare * often * ({k1} + 1)
        / (often + {k1} * (1 - {b} + {b} * length / mean))) AS score
    FROM hits JOIN rarity USING (term)
    JOIN unnest(%s::text[], %s::float8[]) AS asked(term, weight) USING (term)
    CROSS JOIN stats GROUP BY id, document)
SELECT scored.id, score FROM scored JOIN documents ON documents.id = document
WHERE {where} ORDER BY round(score::numeric, 5) DESC, scored.id LIMIT %s
"""
"""Parameters: terms, terms, terms and their weights, those of the condition, how many."""


def to_sql(where: Sequence[Condition]) -> tuple[str, list[Any]]:
    """A clause with %s, and the values for it."""
    clauses, values = ["true"], []
    for condition in where:
        either = []
        for value in condition.values:
            clause, bound = _compare(condition.key, condition.operator, value)
            either.append(clause)
            values += bound
        clauses.append(f"({' OR '.join(either) or 'false'})")
    return " AND ".join(clauses), values


def _compare(key: str, operator: str, value: Value) -> tuple[str, list[Any]]:
    if operator in ("=", "!="):
        claim = "NOT meta @> %s::jsonb" if operator == "!=" else "meta @> %s::jsonb"
        return claim, [json.dumps({key: value})]
    if isinstance(value, str):
        kind, left = "string", 'meta ->> %s COLLATE "C"'
    else:
        kind, left = "number", "(meta ->> %s)::numeric"
    claim = (
        f"CASE WHEN jsonb_typeof(meta -> %s) = '{kind}' THEN {left} {operator} %s ELSE false END"
    )
    return claim, [key, key, value]
