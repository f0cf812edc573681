"""Filters: conditions on the metadata of documents.

    {"year": 1958}                    equal
    {"lang": ["en", "de"]}            one of
    {"year": {">=": 1950, "<": 1960}}  range; numbers compare with numbers, text with text

Text compares by code point. A document without the key meets only `!=`. On a command line:
`year>=1950`, `lang=en`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relmo.config import check_choice
from relmo.errors import ConfigError
from relmo.search.documents import MetaValue

OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
_WRITTEN = re.compile(
    r"(?P<key>[^=!<>]+?)\s*(?P<operator><=|>=|!=|<|>|=)\s*(?P<value>(?![=<>]).*)", re.DOTALL
)
_JOINED = re.compile(
    r"^[^\"].*\s(and|or|&&|\|\|)\s+\w+\s*(<=|>=|!=|<|>|=)", re.IGNORECASE | re.DOTALL
)
_INVALID = re.compile("[\0\ud800-\udfff]")  # no store can hold these

Where = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of one metadata key with a value, or with several of which `=` finds any."""

    key: str
    operator: str
    values: tuple[MetaValue, ...]

    def __post_init__(self) -> None:
        if not self.key or _INVALID.search(self.key):
            raise ConfigError(f"cannot filter on the key {self.key!r}; rename it")
        check_choice("operator", self.operator, OPERATORS)
        if self.operator != "=" and len(self.values) != 1:
            raise ConfigError(f"{self.key!r}: {self.operator} takes one value")
        for value in self.values:
            if problem := self._problem(value):
                raise ConfigError(f"cannot compare {self.key!r} with {value!r}: {problem}")

    def _problem(self, value: object) -> str | None:
        if not isinstance(value, str | int | float | bool | None):
            return "expected text, a number, a boolean or null"
        if isinstance(value, str) and _INVALID.search(value):
            return "it contains NUL or a lone surrogate"
        if isinstance(value, float) and not math.isfinite(value):
            return "the number is not finite"
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return "the number exceeds 64 bits"
        if self.operator in ("<", "<=", ">", ">=") and isinstance(value, bool | None):
            return f"booleans and null have no order; {self.operator} needs text or a number"
        return None


Conditions = Sequence[Condition]
"""Conditions that must all hold."""


def value_kind(value: MetaValue) -> str:
    """The kind of a value; values of different kinds are neither equal nor ordered."""
    if isinstance(value, bool | None):
        return "null" if value is None else str(value).lower()
    return "text" if isinstance(value, str) else "number"


def conditions(where: Where | None) -> list[Condition]:
    """The conditions of a filter, all of which must hold."""
    found: list[Condition] = []
    for key, wanted in (where or {}).items():
        if isinstance(wanted, Mapping):
            found += [Condition(key, operator, (value,)) for operator, value in wanted.items()]
        else:
            is_list = isinstance(wanted, Sequence) and not isinstance(wanted, str)
            found.append(Condition(key, "=", tuple(wanted) if is_list else (wanted,)))
    return found


def parse_where(written: Iterable[str]) -> dict[str, dict[str, MetaValue]]:
    """A filter from the command line: `year>=1950`; quotes make a number text: `zip="01234"`."""
    where: dict[str, dict[str, MetaValue]] = {}
    for each in written:
        match = _WRITTEN.fullmatch(each.strip())
        if match is None:
            raise ConfigError(
                f"not a condition: {each!r}; write KEY=VALUE, with one of {' '.join(OPERATORS)}, "
                f'and quotes around a value that starts with one: KEY=">x"'
            )
        if not match["value"] and match["operator"] not in ("=", "!="):
            raise ConfigError(f"{each!r} has no value; write one after {match['operator']}")
        if _JOINED.match(match["value"]):
            raise ConfigError(
                f"{each!r} looks like two conditions; give each in its own --where, or put the "
                f"value in double quotes"
            )
        known = where.setdefault(match["key"].strip(), {})
        if match["operator"] in known:
            raise ConfigError(
                f"two conditions {match['key'].strip()}{match['operator']}…; all conditions must "
                f"hold, so give one of them"
            )
        known[match["operator"]] = _parse(match["value"])
    return where


def _parse(written: str) -> MetaValue:
    try:
        value = json.loads(written)
    except ValueError:
        return written
    return value if isinstance(value, str | int | float | bool | None) else written


def to_sql(
    where: Conditions, compare: Callable[[Condition], tuple[str, list[Any]]]
) -> tuple[str, list[Any]]:
    """An SQL clause with a `?` per parameter, and the parameters.

    Args:
        where: conditions, all of which must hold.
        compare: one condition -> clause and parameters, in the dialect of a database.
    """
    clauses, values = ["true"], []
    for clause, bound in map(compare, where):
        clauses.append(f"({clause})")
        values += bound
    return " AND ".join(clauses), values
