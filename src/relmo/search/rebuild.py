"""Build an index anew from the passages that it holds: what `relmo index --rebuild` does.

Passages stay as they are cut, with their documents, metadata and checksums; their vectors are made
by another model. The old index stays until the new one is complete, and then is replaced by it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from relmo.errors import ConfigError, OutputError
from relmo.files import replacing
from relmo.progress import progress
from relmo.search.documents import MetaValue, Passage
from relmo.search.index import BATCH_PASSAGES, SemanticIndex
from relmo.search.models import Model
from relmo.search.settings import IndexSettings
from relmo.search.store import SCHEMES, Store, check_kinds, open_store, unreadable
from relmo.text.batches import in_windows


@dataclass(frozen=True, slots=True)
class KeptDocument:
    """What an index holds of a document besides its passages."""

    key: str
    source: str
    digest: str
    meta: Mapping[str, MetaValue]


Kept = tuple[KeptDocument, list[Passage]]


def rebuild_index(
    where: str | Path,
    *,
    model: str | None = None,
    elmo: Model | None = None,
    show_progress_bar: bool = False,
) -> IndexSettings:
    """Replace an index in a file by one of the same passages, and return its settings.

    Args:
        where: the file.
        model: name of the model; by default that of new indexes.
        elmo: the model, if it is already loaded.
        show_progress_bar: on standard error.
    """
    if str(where).startswith(SCHEMES):
        raise ConfigError(
            "an index in PostgreSQL is not replaced; index the files again, into another "
            "relmo_index, and delete this one"
        )
    path = Path(where)
    with replacing(path) as new_path:
        with closing(open_store(path, create=False)) as old:
            old.lock()
            with closing(open_store(new_path, create=True)) as new:
                index = _copy(old, new, _settings(old, model), elmo, show_progress_bar)
        if path.with_name(f"{path.name}-wal").exists():  # SQLite would apply it to the new file
            raise OutputError(f"{path} is open in another process; close it and try again")
    return index.settings


def _copy(
    old: Store, new: Store, settings: IndexSettings, elmo: Model | None, show_progress_bar: bool
) -> SemanticIndex:
    """Write the passages of an index into an empty store."""
    texts = (passage.text for _, own in _kept(old) for passage in own)
    index = SemanticIndex.of_passages(new, texts, settings, elmo)
    total = old.counts().documents
    with closing(progress(_kept(old), total, "documents", show_progress_bar)) as documents:
        for batch in in_windows(documents, lambda pair: max(1, len(pair[1])), BATCH_PASSAGES):
            index.store_passages(batch)
    new.optimize()
    return index


def _settings(old: Store, model: str | None) -> IndexSettings:
    """How the passages were cut, and otherwise what new indexes have."""
    header = old.read_header()
    if header is None:
        raise ConfigError(f"{old.name}: contains no index yet; create one with: relmo index")
    with unreadable(old.name):
        known = IndexSettings.from_json(header[0])
    usual = IndexSettings(model=model) if model else IndexSettings()
    kept = {name: getattr(known, name) for name in ("passages", "max_words", "language")}
    return dataclasses.replace(usual, **kept)


def _kept(store: Store) -> Iterator[Kept]:
    """The documents of an index with their passages."""
    for (key, source, digest, meta), own in groupby(store.stored(), key=lambda row: tuple(row[:4])):
        with unreadable(store.name):
            check_kinds((key, source, digest, meta), (str, str, str, str))
            known = json.loads(meta)
            passages = []
            for row in own:
                check_kinds(row[4:], (int, int, int, str))
                start, end, line, text = row[4:]
                passages.append(Passage(start, end, line, text))
        yield KeptDocument(key, source, digest, known), passages
