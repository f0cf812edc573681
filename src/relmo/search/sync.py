"""Keep an index in step with files: what `relmo index` does.

A checksum identifies the content of each document: unchanged documents are not embedded again, and
those that are gone are deleted. Documents are stored in batches, each in one transaction; to resume
an interrupted run, start it again: it continues with the documents that are missing.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relmo.errors import ConfigError, DataError, Interrupted, TextError
from relmo.progress import progress, tell
from relmo.search.documents import (
    MAX_BYTES,
    BadRow,
    Document,
    Skipped,
    TableColumns,
    WrongColumns,
    find_sources,
    is_under,
    read_source,
)
from relmo.search.index import SemanticIndex
from relmo.search.models import Model
from relmo.search.settings import IndexSettings
from relmo.search.store import Store, open_store


@dataclass(slots=True)
class SyncReport:
    """What a run did."""

    files: int = 0
    documents: int = 0
    embedded: int = 0
    """Documents that were new or had changed."""
    unchanged: int = 0
    deleted: int = 0
    empty: int = 0
    """Documents without text, which are not stored."""
    bad: int = 0
    """Rows that could not be read."""
    skipped: int = 0
    """Files and folders that were left out, such as links that leave the folder."""
    passages: int = 0
    """Total in the index after the run."""
    seconds: float = 0.0


def index_files(
    where: str | Path,
    paths: Sequence[str | Path],
    *,
    columns: TableColumns | None = None,
    settings: dict[str, Any] | None = None,
    elmo: Model | None = None,
    strict: bool = False,
    on_bad: Callable[[BadRow], None] = lambda row: None,
    max_bytes: int = MAX_BYTES,
    show_progress_bar: bool = False,
) -> SyncReport:
    """Create an index of files, or bring an existing one up to date with them.

    Args:
        where: a file or a postgresql:// address.
        paths: files and folders. Documents from other paths stay in the index.
        columns: the columns of tables.
        settings: `IndexSettings` that differ from the defaults, by name. An existing index keeps
            its own; a setting that contradicts them is an error.
        elmo: the model, if it is already loaded.
        strict: stop with an error at the first bad row, or file that is left out.
        on_bad: called with each bad row, and each file that is left out.
        max_bytes: limit of one document; a longer one is a bad row.
        show_progress_bar: show one on standard error.
    """
    skipped: list[Skipped] = []
    sources = find_sources(paths, skipped.append)
    for each in skipped:
        if strict:
            raise TextError(str(each))
        on_bad(each)
    if not sources:
        raise ConfigError(f"{', '.join(map(str, paths))}: no files that can be indexed")
    with _opened(where, create=True) as (store, report):
        report.files, report.skipped = len(sources), len(skipped)
        roles = columns or TableColumns()
        run = _SyncRun(store, paths, sources, roles, max_bytes, strict, on_bad, report)
        total = run.survey()
        index = run.open_index(settings or {}, elmo, show_progress_bar)
        documents = progress(run.documents(), total, "documents", show_progress_bar)
        with closing(documents):
            report.embedded = index.write(documents)
        here, unknown = set(sources), [each.source for each in skipped if each.is_unreadable]
        below = [each for each in store.sources() if each not in here and is_under(each, paths)]
        gone = [each for each in below if not is_under(each, unknown)]
        report.deleted += sum(_delete_source(store, source) for source in gone)
    return report


def remove_files(where: str | Path, paths: Sequence[str | Path]) -> SyncReport:
    """Delete from an index what came from files and folders, which need not exist any more.

    Args:
        where: a file or a postgresql:// address.
        paths: as they were given for indexing. If the index contains nothing from one of them,
            that is an error, and nothing is deleted.
    """
    with _opened(where, create=False) as (store, report):
        sources = store.sources()
        for path in paths:
            if not any(is_under(source, [path]) for source in sources):
                raise ConfigError(
                    f"the index contains nothing from {path}; give the path as it was indexed"
                )
        gone = [source for source in sources if is_under(source, paths)]
        report.files = len(gone)
        report.deleted = sum(_delete_source(store, source) for source in gone)
    return report


@contextmanager
def _opened(where: str | Path, *, create: bool) -> Iterator[tuple[Store, SyncReport]]:
    """A store to change, and the report of it, which is completed on leaving."""
    start, report = time.monotonic(), SyncReport()
    store = open_store(where, create=create)
    with store.closed_on_error():
        store.lock()
        try:
            yield store, report
        except KeyboardInterrupt as error:
            raise Interrupted(_interrupted(store), cause=error) from error
        store.optimize()
        report.passages = store.counts().passages
    store.close()
    report.seconds = round(time.monotonic() - start, 1)


def _interrupted(store: Store) -> str:
    """What an interrupted run leaves behind."""
    if store.read_header() is None:
        return "interrupted; nothing was stored"
    count = store.counts().documents
    return f"interrupted; the {count:,} documents in {store.name} are safe, and embedded only once"


def _delete_source(store: Store, source: str) -> int:
    keys = list(store.digests(source))
    store.replace([], keys)
    return len(keys)


@dataclass(slots=True)
class _SyncRun:
    """One run over the files; counts in `report`."""

    store: Store
    paths: Sequence[str | Path]
    sources: list[str]
    columns: TableColumns
    max_bytes: int
    strict: bool
    on_bad: Callable[[BadRow], None]
    report: SyncReport
    _keys: dict[str, str] = field(default_factory=dict)
    """Key -> source of the documents so far whose key could be that of another source."""
    _all_sources: frozenset[str] = frozenset()
    """Of this run and in the index."""

    def __post_init__(self) -> None:
        self._all_sources = frozenset((*self.sources, *self.store.sources()))

    def survey(self) -> int:
        """Read all files once, which is fast compared to embedding; the number of documents.

        Raise ConfigError for a table without a chosen column, for a metadata column that no row
        has, or if there is no text to fit the encoder of a new index to; DataError for a bad row if
        the run is strict.
        """
        total, has_text, missing = 0, self.store.read_header() is not None, self.columns.meta or ()
        for source in self.sources:
            before, wrong = total, None
            for item in self._read(source, lambda text: tell(f"relmo: {text}")):
                if isinstance(item, Document):
                    total += 1
                    has_text = has_text or bool(item.text.strip())
                    missing = tuple(name for name in missing if name not in item.meta)
                elif isinstance(item, WrongColumns):
                    wrong = wrong or item
                elif self.strict:
                    raise DataError(item.source, item.line, item.problem)
            if wrong is not None and total == before:
                raise ConfigError(f"{wrong}; choose columns with --text and --id")
            if wrong is not None and self.strict:
                raise DataError(wrong.source, wrong.line, wrong.problem)
        if missing:
            raise ConfigError(f"no row has the metadata column {missing[0]!r}")
        if not has_text:
            for _ in self.documents():
                pass  # reports the bad rows
            raise ConfigError(
                f"no text to index in {self.report.files:,} files ({self.report.bad:,} bad rows, "
                f"{self.report.empty:,} empty documents); check the files and the text columns"
            )
        return total

    def open_index(
        self, changes: dict[str, Any], elmo: Model | None, show_progress_bar: bool
    ) -> SemanticIndex:
        """The index in the store, or a new one."""
        header = self.store.read_header()
        if header is None:
            settings = IndexSettings(**changes)
            items = (item for source in self.sources for item in self._read(source))
            texts = (item for item in items if isinstance(item, Document))
            return SemanticIndex.create(self.store, texts, settings, elmo, show_progress_bar)
        stored = dataclasses.asdict(IndexSettings.from_json(header[0]))
        for name, value in changes.items():
            if stored[name] != value:
                raise ConfigError(
                    f"the index was built with {name} {stored[name]!r}, not {value!r}; omit this "
                    f"setting, or build a new index"
                )
        return SemanticIndex.from_store(self.store, elmo)

    def documents(self) -> Iterator[Document]:
        """New and changed documents; deletes those that are gone from their file."""
        for source in self.sources:
            known, bad = self.store.digests(source), self.report.bad
            for item in self._read(source):
                if isinstance(item, BadRow):
                    self.report.bad += 1
                    self.on_bad(item)
                    continue
                self.report.documents += 1
                if not item.text.strip():
                    self.report.empty += 1
                elif known.pop(item.key, None) == item.digest:
                    self.report.unchanged += 1
                elif other := self._other_source(item):
                    self._report_clash(item, other)
                else:
                    yield item
            if known and self.report.bad == bad:  # a file with bad rows keeps its documents
                self.store.replace([], list(known))
                self.report.deleted += len(known)

    def _other_source(self, item: Document) -> str | None:
        """A source that has a document of the same key: row `b` of file `a` is `a#b`, as a file is.

        Sources that are gone do not count: their documents are replaced.
        """
        parts = item.key.split("#")
        starts = ("#".join(parts[:count]) for count in range(1, len(parts) + 1))
        if all(start == item.source or start not in self._all_sources for start in starts):
            return None
        found = self._keys.setdefault(item.key, item.source)  # it may not be stored yet
        if found != item.source:
            return found
        stored = self.store.source_of(item.key)
        if stored in (None, item.source):
            return None
        is_gone = stored not in self.sources and is_under(stored, self.paths)
        return None if is_gone else stored

    def _report_clash(self, item: Document, other: str) -> None:
        problem = f"its name in the index, {item.key!r}, is that of a document of {other}; "
        row = BadRow(item.source, item.line, f"{problem}rename the file or the id")
        if self.strict:
            raise DataError(row.source, row.line, row.problem)
        self.report.documents -= 1
        self.report.bad += 1
        self.on_bad(row)

    def _read(
        self, source: str, note: Callable[[str], None] = lambda text: None
    ) -> Iterator[Document | BadRow]:
        return read_source(source, self.columns, self.max_bytes, note)
