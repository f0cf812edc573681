"""Files -> an index that holds just what they hold: what `relmo index` does.

Each document is known by a checksum: what has not changed is not embedded again, what is gone is
deleted. Documents are stored a batch at a time, each batch in one transaction; a run that was
interrupted is simply started again, and goes on with the documents that are not there yet.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relmo.elmo import Elmo
from relmo.errors import ConfigError, DataError
from relmo.progress import progress
from relmo.search.documents import BadRow, Document
from relmo.search.index import SemanticIndex
from relmo.search.open_store import open_store
from relmo.search.readers import find_sources, is_under, read_source
from relmo.search.settings import Settings
from relmo.search.store import Store
from relmo.search.tables import Columns, check_columns


@dataclass(slots=True)
class Report:
    """What a run did."""

    files: int = 0
    documents: int = 0
    embedded: int = 0
    """Documents that were new or had changed."""
    unchanged: int = 0
    deleted: int = 0
    empty: int = 0
    """Documents without text; they are not kept."""
    bad: int = 0
    """Rows that could not be read."""
    passages: int = 0
    """In the index now."""
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return dataclasses.asdict(self)


def index_files(
    where: str | Path,
    paths: Sequence[str | Path],
    *,
    columns: Columns | None = None,
    settings: dict[str, Any] | None = None,
    elmo: Elmo | None = None,
    strict: bool = False,
    on_bad: Callable[[BadRow], None] | None = None,
    show_progress_bar: bool = False,
) -> Report:
    """Make an index of files, or bring one up to date with them.

    Args:
        where: a file or a postgresql:// address.
        paths: files and folders. What the index holds from elsewhere stays.
        columns: of tables.
        settings: those that shall differ from the defaults, by name (`Settings`). An index that
            is there keeps its own; a setting that contradicts them is an error.
        elmo: the model, if it is loaded already.
        strict: the first bad row is an error, and ends the run.
        on_bad: called with each bad row.
        show_progress_bar: on standard error.
    """
    begun = time.monotonic()
    columns = columns or Columns()
    check_columns(columns)
    sources = find_sources(paths)
    if not sources:
        raise ConfigError(f"{', '.join(map(str, paths))}: no file that can be indexed")
    store = open_store(where, create=True)
    try:
        run = _Run(store, sources, columns, strict, on_bad, Report(files=len(sources)))
        run.check_meta()
        index = run.index(settings or {}, elmo, show_progress_bar)
        with closing(progress(run.documents(), run.total(), "documents", show_progress_bar)) as bar:
            for entries in index.entries(bar):
                store.replace(entries)
                run.report.embedded += len(entries)
        run.drop_sources(paths)
        store.tidy()
        run.report.passages = store.counts().passages
    except BaseException:
        store.discard()
        raise
    finally:
        store.close()
    run.report.seconds = round(time.monotonic() - begun, 1)
    return run.report


def remove_files(where: str | Path, paths: Sequence[str | Path]) -> Report:
    """Take out of an index what it holds from files and folders, which need not be there any more.

    Args:
        where: a file or a postgresql:// address.
        paths: as they were given when they were indexed. One that the index holds nothing from is
            an error, and nothing is taken out.
    """
    begun, report = time.monotonic(), Report()
    store = open_store(where, create=False)
    try:
        held = store.sources()
        for path in paths:
            if not any(is_under(source, [path]) for source in held):
                raise ConfigError(f"the index holds nothing from {path}; name it as it was indexed")
        for source in held:
            if is_under(source, paths):
                keys = list(store.digests(source))
                store.replace([], keys)
                report.files += 1
                report.deleted += len(keys)
        store.tidy()
        report.passages = store.counts().passages
    finally:
        store.close()
    report.seconds = round(time.monotonic() - begun, 1)
    return report


@dataclass(slots=True)
class _Run:
    store: Store
    sources: list[str]
    columns: Columns
    strict: bool
    on_bad: Callable[[BadRow], None] | None
    report: Report

    def index(
        self, changes: dict[str, Any], elmo: Elmo | None, show_progress_bar: bool
    ) -> SemanticIndex:
        """The index that the store holds, or a new one."""
        about = self.store.read_about()
        if about is None:
            settings = Settings(**changes)
            self._check_text()
            return SemanticIndex.begin(self.store, self._all(), settings, elmo, show_progress_bar)
        kept = dataclasses.asdict(Settings.from_json(about[0]))
        for name, value in changes.items():
            if kept[name] != value:
                raise ConfigError(
                    f"the index was made with {name} {kept[name]!r}, not {value!r}; leave it out, "
                    f"or make a new index"
                )
        return SemanticIndex.over(self.store, elmo)

    def check_meta(self) -> None:
        """Raise ConfigError for a metadata column that no row has."""
        wanted = dict.fromkeys(self.columns.meta or ())
        documents = self._all() if wanted else iter(())
        for document in documents:
            wanted = {name: None for name in wanted if name not in document.meta}
            if not wanted:
                return
        if wanted:
            raise ConfigError(f"no row has a column {next(iter(wanted))!r} to filter on; spell it")

    def _check_text(self) -> None:
        """Raise ConfigError where there is nothing to fit an encoder to; say what is bad before."""
        if any(document.text.strip() for document in self._all()):
            return
        for _ in self.documents():
            pass
        raise ConfigError(
            f"no text to index in {self.report.files:,} files ({self.report.bad:,} bad rows, "
            f"{self.report.empty:,} empty documents); give files with text, or choose its columns"
        )

    def total(self) -> int:
        """Documents of all files: reading them is quick beside embedding them."""
        return sum(1 for _ in self._all())

    def documents(self) -> Iterator[Document]:
        """New and changed documents; on the way, those that left a file are deleted."""
        for source in self.sources:
            known, bad = self.store.digests(source), self.report.bad
            for item in read_source(source, self.columns):
                if isinstance(item, BadRow):
                    self._note(item)
                    continue
                self.report.documents += 1
                if not item.text.strip():
                    self.report.empty += 1
                elif known.pop(item.key, None) == item.digest:
                    self.report.unchanged += 1
                else:
                    yield item
            if known and self.report.bad == bad:  # a file that could not be read keeps its own
                self.store.replace([], list(known))
                self.report.deleted += len(known)

    def drop_sources(self, paths: Sequence[str | Path]) -> None:
        """Delete the documents of files that are gone."""
        here = set(self.sources)
        for source in self.store.sources():
            if source not in here and is_under(source, paths):
                keys = list(self.store.digests(source))
                self.store.replace([], keys)
                self.report.deleted += len(keys)

    def _all(self) -> Iterator[Document]:
        for source in self.sources:
            for item in read_source(source, self.columns):
                if isinstance(item, Document):
                    yield item
                elif self.strict:
                    self._note(item)

    def _note(self, row: BadRow) -> None:
        self.report.bad += 1
        if self.on_bad is not None:
            self.on_bad(row)
        if self.strict:
            raise DataError(row.source, row.line, row.what)
