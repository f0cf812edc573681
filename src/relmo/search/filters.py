"""Conditions on metadata: what a search leaves out.

    {"year": 1958}                    equal
    {"lang": ["en", "de"]}            one of these
    {"year": {">=": 1950, "<": 1960}}  compared; numbers with numbers, text with text by code point

A document without the key meets no condition but `!=`. On a command line: `year>=1950`, `lang=en`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relmo.errors import ConfigError
from relmo.search.documents import Value

OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
_WRITTEN = re.compile(
    r"(?P<key>[^=!<>]+?)\s*(?P<operator><=|>=|!=|<|>|=)\s*(?P<value>.*)", re.DOTALL
)
_BROKEN = re.compile("[\0\ud800-\udfff]")  # no store can hold these

Where = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Condition:
    """One claim about one key: any of the values stands in this relation to it."""

    key: str
    operator: str
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if '"' in self.key or not self.key or _BROKEN.search(self.key):
            raise ConfigError(f"cannot filter on the key {self.key!r}; rename it")
        if self.operator not in OPERATORS:
            raise ConfigError(f"{self.operator!r} compares nothing; choose {' '.join(OPERATORS)}")
        for value in self.values:
            if not isinstance(value, str | int | float | bool | None):
                raise ConfigError(f"{self.key} is compared with {value!r}; give text or a number")
            if isinstance(value, str) and _BROKEN.search(value):
                raise ConfigError(f"{self.key} is compared with NUL or half a character")
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise ConfigError(f"{self.key} is compared with a number beyond 64 bits")
            if self.operator in ("<", "<=", ">", ">=") and isinstance(value, bool | None):
                raise ConfigError(f"{self.key} {self.operator} {value!r}: this has no order")


def conditions(where: Where | None) -> list[Condition]:
    """What a mapping asks for; all must hold."""
    found: list[Condition] = []
    for key, wanted in (where or {}).items():
        if isinstance(wanted, Mapping):
            found += [Condition(key, operator, (value,)) for operator, value in wanted.items()]
        elif isinstance(wanted, Sequence) and not isinstance(wanted, str):
            found.append(Condition(key, "=", tuple(wanted)))
        else:
            found.append(Condition(key, "=", (wanted,)))
    return found


def parse_where(written: Iterable[str]) -> dict[str, dict[str, Value]]:
    """Conditions as they are typed: `year>=1950`; quotes make text of a number: `zip="01234"`."""
    where: dict[str, dict[str, Value]] = {}
    for each in written:
        match = _WRITTEN.fullmatch(each.strip())
        if match is None:
            raise ConfigError(f"{each!r} is no condition; write KEY=VALUE or KEY>=VALUE")
        where.setdefault(match["key"].strip(), {})[match["operator"]] = _value(match["value"])
    return where


def _value(written: str) -> Value:
    try:
        value = json.loads(written)
    except ValueError:
        return written
    return value if isinstance(value, str | int | float | bool | None) else written
