"""Read first: SemanticIndex, documents in and passages that mean the same out.

    index = SemanticIndex.build("notes.relmo", [Document("a", "a", "The bank raised rates.")])
    index.search("interest on loans", k=3)      list of Hit, best first
    index.update(documents); index.delete(["a"])
    index = SemanticIndex.open("notes.relmo")   or postgresql://…

Files are indexed by `sync.py`, which is what `relmo index` calls.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from relmo.elmo import Elmo
from relmo.errors import ConfigError
from relmo.search.documents import Document, Passage, Value
from relmo.search.encoder import Encoder
from relmo.search.filters import Condition, Where, conditions
from relmo.search.fusion import search_both
from relmo.search.open_store import open_store
from relmo.search.passages import split
from relmo.search.sample import sample_passages
from relmo.search.settings import Settings
from relmo.search.store import Counts, Entry, Scored, Store
from relmo.search.terms import make_terms
from relmo.types import Vectors

BATCH_PASSAGES = 512
"""Passages that are embedded and stored together: bounds memory, and what a crash costs."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that answers a query."""

    document: str
    source: str
    line: int
    start: int
    end: int
    """Characters of the document's text."""
    score: float
    text: str
    meta: dict[str, Value]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return dataclasses.asdict(self)


class SemanticIndex:
    """Passages in a store, and the encoder that put them there."""

    def __init__(self, store: Store, encoder: Encoder, settings: Settings) -> None:
        self.store, self.encoder, self.settings = store, encoder, settings
        self._terms = make_terms(settings.language)

    # ── making and opening ──────────────────────────────────────────────────────────────────

    @classmethod
    def build(
        cls,
        where: str | Path,
        documents: Iterable[Document],
        *,
        settings: Settings | None = None,
        elmo: Elmo | None = None,
    ) -> Self:
        """Make an index at a path or postgresql:// address, and add documents to it.

        Args:
            where: a file that is made, or a database; an index that is there is an error.
            documents: read twice, to fit the encoder first: a list, or anything that starts anew.
            settings: how text becomes vectors; the defaults are measured.
            elmo: the model, if it is loaded already.
        """
        if iter(documents) is documents:
            documents = list(documents)
        store = open_store(where, create=True)
        try:
            if store.read_about() is not None:
                raise ConfigError(f"{where} holds an index already; open it and update it")
            index = cls.begin(store, documents, settings or Settings(), elmo)
            index.add(documents)
        except BaseException:
            store.discard()
            store.close()
            raise
        return index

    @classmethod
    def begin(
        cls,
        store: Store,
        documents: Iterable[Document],
        settings: Settings,
        elmo: Elmo | None,
        show_progress_bar: bool = False,
    ) -> Self:
        """Fit an encoder to a sample of the documents, and write it into an empty store."""
        elmo = elmo or Elmo.from_pretrained(settings.model)
        settings = dataclasses.replace(
            settings, fingerprint=elmo.fingerprint(), width=elmo.config.width
        )
        make_terms(settings.language)  # a missing stemmer is found before hours of work
        cut = (split(each, settings.passages, settings.max_words) for each in documents)
        sample = sample_passages(passage.text for passages in cut for passage in passages)
        encoder = Encoder.fit(elmo, settings, sample, show_progress_bar)
        store.write_about(settings.to_json(), encoder.to_bytes(settings))
        return cls(store, encoder, settings)

    @classmethod
    def open(cls, where: str | Path, *, elmo: Elmo | None = None) -> Self:
        """An index that is there, with the model that it was made with."""
        store = open_store(where, create=False)
        try:
            return cls.over(store, elmo)
        except BaseException:
            store.close()
            raise

    @classmethod
    def over(cls, store: Store, elmo: Elmo | None = None) -> Self:
        """The index that a store holds."""
        about = store.read_about()
        if about is None:
            raise ConfigError("this store holds no index yet; make one with: relmo index")
        settings = Settings.from_json(about[0])
        elmo = elmo or Elmo.from_pretrained(settings.model)
        return cls(store, Encoder.from_bytes(elmo, settings, about[1]), settings)

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.counts().passages

    def counts(self) -> Counts:
        """Documents and passages."""
        return self.store.counts()

    # ── changing ────────────────────────────────────────────────────────────────────────────

    def add(self, documents: Iterable[Document]) -> int:
        """Add documents whose keys are new, and count them; a key that is there is an error."""
        return self._put(self._new(documents))

    def update(self, documents: Iterable[Document]) -> int:
        """Add documents, in place of those with equal keys; count those that had changed."""
        return self._put(self._changed(documents))

    def delete(self, keys: Iterable[str]) -> None:
        """Take documents out; a key that is not there is no error."""
        self.store.replace([], list(keys))
        self.store.tidy()

    def _put(self, documents: Iterable[Document]) -> int:
        count = 0
        for entries in self.entries(documents):
            self.store.replace(entries)
            count += len(entries)
        self.store.tidy()
        return count

    def entries(self, documents: Iterable[Document]) -> Iterator[list[Entry]]:
        """Documents ready for the store, so many at a time as embed well together.

        A document of very many passages stays whole: it is stored in one transaction.
        """
        held: list[tuple[Document, list[Passage]]] = []
        size = 0
        for document in documents:
            held.append(
                (document, split(document, self.settings.passages, self.settings.max_words))
            )
            size += len(held[-1][1])
            if size >= BATCH_PASSAGES or len(held) >= BATCH_PASSAGES:
                yield self._embed(held)
                held, size = [], 0
        if held:
            yield self._embed(held)

    def _embed(self, held: list[tuple[Document, list[Passage]]]) -> list[Entry]:
        texts = [passage.text for _, passages in held for passage in passages]
        vectors = self.encoder.encode(texts)  # (N, D)
        entries, first = [], 0
        for document, passages in held:
            own = vectors[first : first + len(passages)]
            terms = [self._terms(passage.text) for passage in passages]
            entries.append(Entry(document, passages, own, terms))
            first += len(passages)
        return entries

    def _new(self, documents: Iterable[Document]) -> Iterator[Document]:
        known = _Known(self.store)
        for document in documents:
            if known.digest(document) is not None:
                raise ConfigError(f"the index holds {document.key!r} already; use update")
            known.note(document)
            yield document

    def _changed(self, documents: Iterable[Document]) -> Iterator[Document]:
        known = _Known(self.store)
        return (each for each in documents if known.digest(each) != each.digest)

    # ── searching ───────────────────────────────────────────────────────────────────────────

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        where: Where | None = None,
        hybrid: bool = False,
        by_document: bool = False,
    ) -> list[Hit]:
        """The passages nearest in meaning to the query, best first.

        Args:
            query: a few words or sentences.
            k: hits at most.
            where: conditions on metadata, see `filters.py`.
            hybrid: rank by the words of the query too.
            by_document: the best passage of each document alone.
        """
        if k < 1:
            raise ConfigError(f"k is {k}; ask for at least 1")
        vector = self.encoder.encode([query])[0]  # (D,)
        terms = self._terms(query) if hybrid else []
        wanted, asked = k, conditions(where)
        while True:
            scored = self._scored(vector, terms, wanted, asked, hybrid)
            hits = self._hits(scored)
            if by_document:
                hits = _best_of_each(hits)
            if len(hits) >= k or len(scored) < wanted:
                return hits[:k]
            wanted *= 4  # many passages of the same documents: look further

    def _hits(self, scored: Sequence[Scored]) -> list[Hit]:
        found = self.store.found([each.passage for each in scored])
        return [
            Hit(
                document=each.key,
                source=each.source,
                line=each.passage.line,
                start=each.passage.start,
                end=each.passage.end,
                score=score,
                text=each.passage.text,
                meta=dict(each.meta),
            )
            for (_, score), each in zip(scored, found, strict=True)
            if each is not None
        ]

    def _scored(
        self,
        vector: Vectors,
        terms: Sequence[str],
        count: int,
        where: Sequence[Condition],
        hybrid: bool,
    ) -> list[Scored]:
        if hybrid:
            return search_both(self.store, vector, terms, count, where)
        return self.store.nearest(vector, count, where) if vector.any() else []


def _best_of_each(hits: Sequence[Hit]) -> list[Hit]:
    """The first hit of each document."""
    best: dict[str, Hit] = {}
    for hit in hits:
        best.setdefault(hit.document, hit)
    return list(best.values())


class _Known:
    """Digests of the store, one source at a time."""

    def __init__(self, store: Store) -> None:
        self.store, self.source = store, ""
        self.digests: dict[str, str] | None = None

    def digest(self, document: Document) -> str | None:
        if self.digests is None or document.source != self.source:
            self.source, self.digests = document.source, self.store.digests(document.source)
        return self.digests.get(document.key)

    def note(self, document: Document) -> None:
        assert self.digests is not None
        self.digests[document.key] = document.digest
