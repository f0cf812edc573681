"""Addresses of databases: what of them names an index, and what of them may be shown."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from relmo.errors import ConfigError


def take_schema(address: str) -> tuple[str, str]:
    """The address as PostgreSQL takes it, and the schema that it names."""
    parts = urlsplit(address)
    options = dict(parse_qsl(parts.query))
    name = options.pop("relmo_index", "index")
    if not re.fullmatch(r"[a-z0-9_]{1,40}", name):
        raise ConfigError(f"relmo_index is {name!r}; use lower-case letters, digits and _")
    return urlunsplit(parts._replace(query=urlencode(options))), f"relmo_{name}"


def without_password(address: str) -> str:
    """The address as it may be shown and logged; a path stays as it is."""
    shown = re.sub(r"(?<=://)([^:/@]*):.*@", r"\1:…@", address)
    return re.sub(r"([?&]password=)[^&]*", r"\1…", shown)
