"""A path or an address -> the store behind it."""

from __future__ import annotations

from pathlib import Path

from relmo.search.embedded import EmbeddedStore
from relmo.search.store import Store

SCHEMES = ("postgresql://", "postgres://")


def open_store(where: str | Path, *, create: bool) -> Store:
    """The store at a path, or in a PostgreSQL database.

    Args:
        where: a file, or postgresql://user@host/database; `?relmo_index=NAME` chooses one of
            several indexes of a database.
        create: make it where there is none.
    """
    if isinstance(where, str) and where.startswith(SCHEMES):
        from relmo.search.postgres import PostgresStore

        return PostgresStore(where, create=create)
    return EmbeddedStore(where, create=create)
