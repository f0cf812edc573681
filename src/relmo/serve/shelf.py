"""An index as /search asks for it: words in, JSON objects out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from relmo.elmo import Elmo
from relmo.search import SemanticIndex
from relmo.search.filters import Where


class Index(Protocol):
    """Anything that finds passages by meaning."""

    def search(
        self, query: str, k: int, *, hybrid: bool, where: Where, documents: bool
    ) -> Sequence[Mapping[str, Any]]:
        """The k best passages, best first.

        Args:
            query: what is sought.
            k: passages at most.
            hybrid: by the query's words too.
            where: conditions on metadata, as `relmo.search.filters` reads them.
            documents: the best passage of each document alone.
        """
        ...


class Shelf:
    """A SemanticIndex behind that protocol; used by the model's thread, with the served model."""

    def __init__(self, index: SemanticIndex) -> None:
        self.index = index

    @classmethod
    def open(cls, where: str, elmo: Elmo) -> Shelf:
        """The index at a path or address. Raises ConfigError if another model made it."""
        return cls(SemanticIndex.open(where, elmo=elmo))

    def search(
        self,
        query: str,
        k: int,
        *,
        hybrid: bool = False,
        where: Where | None = None,
        documents: bool = False,
    ) -> list[dict[str, Any]]:
        """The k best passages, best first."""
        hits = self.index.search(query, k, where=where, hybrid=hybrid, by_document=documents)
        return [hit.to_dict() for hit in hits]

    def close(self) -> None:
        """Let go of the store."""
        self.index.close()
