"""A path or an address -> the store behind it."""

from __future__ import annotations

from pathlib import Path

from relmo.errors import ConfigError
from relmo.search.addresses import without_password
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
    if isinstance(where, str) and "://" in where:
        raise ConfigError(
            f"{without_password(where)}: no such kind of store; give a file or postgresql://…"
        )
    return EmbeddedStore(where, create=create)
