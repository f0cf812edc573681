"""An index as /search asks for it: words in, JSON objects out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from relmo.elmo import Elmo
from relmo.search import SemanticIndex


class Index(Protocol):
    """Anything that finds passages by meaning."""

    def search(self, query: str, k: int, hybrid: bool) -> Sequence[Mapping[str, Any]]:
        """The k best passages, best first; by the query's words too, if hybrid."""
        ...


class Shelf:
    """A SemanticIndex behind that protocol; used by the model's thread, with the served model."""

    def __init__(self, index: SemanticIndex) -> None:
        self.index = index

    @classmethod
    def open(cls, where: str, elmo: Elmo) -> Shelf:
        """The index at a path or address. Raises ConfigError if another model made it."""
        return cls(SemanticIndex.open(where, elmo=elmo))

    def search(self, query: str, k: int, hybrid: bool) -> list[dict[str, Any]]:
        """The k best passages, best first."""
        return [hit.to_dict() for hit in self.index.search(query, k, hybrid=hybrid)]

    def close(self) -> None:
        """Let go of the store."""
        self.index.close()
