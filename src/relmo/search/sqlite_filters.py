"""Conditions on metadata as SQLite asks them of the JSON in `documents.meta`."""

from __future__ import annotations

from collections.abc import Sequence

from relmo.search.documents import Value
from relmo.search.filters import Condition


def to_sql(where: Sequence[Condition]) -> tuple[str, list[Value]]:
    """A clause with question marks, and the values for them."""
    clauses: list[str] = []
    values: list[Value] = []
    for condition in where:
        path = f'$."{condition.key}"'
        either = [_compare(condition.operator, value) for value in condition.values]
        clauses.append(f"({' OR '.join(either) or '0'})")
        for value in condition.values:
            values += [path] if isinstance(value, bool | None) else [path, path, value]
    return " AND ".join(clauses), values


def _compare(operator: str, value: Value) -> str:
    if operator == "!=":
        return f"NOT coalesce({_compare('=', value)}, 0)"
    if isinstance(value, bool | None):
        kind = "null" if value is None else str(value).lower()
        return f"json_type(meta, ?) = '{kind}'"
    kinds = "'text'" if isinstance(value, str) else "'integer', 'real'"
    return f"json_type(meta, ?) IN ({kinds}) AND json_extract(meta, ?) {operator} ?"
