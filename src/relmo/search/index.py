"""Read first: SemanticIndex, documents in and passages with a similar meaning out.

Files are indexed by `sync.py`, which is what `relmo index` calls.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal, Self, cast, get_args

import numpy as np

from relmo.errors import ConfigError
from relmo.search.closer import CloserReader
from relmo.search.copies import MAX_LOOKED, distinct_hits
from relmo.search.documents import Document, Passage, split_passages
from relmo.search.explain import Explanation, explain_hits
from relmo.search.filters import Conditions, Where, conditions
from relmo.search.lexical import Closer, make_analyzer, ranked
from relmo.search.models import AnyEncoder, Model, fit_encoder, model_of, open_model, read_encoder
from relmo.search.settings import IndexSettings
from relmo.search.spelling import Corrected, Speller
from relmo.search.store import (
    Entry,
    Hit,
    IndexCounts,
    Scored,
    Store,
    Stored,
    Terms,
    open_store,
    unreadable,
    weights_of,
)
from relmo.search.trained import TrainedEncoder
from relmo.text.batches import in_windows
from relmo.types import Vectors

Ranking = Literal["hybrid", "vectors", "words"]
"""What passages are ranked by: words (BM25), vectors, or both together (hybrid)."""
BATCH_PASSAGES = 512
"""Passages that are embedded and stored together: limits memory, and what a crash costs."""
MIN_SECONDS = 0.001
"""Time left for a search after its correction took all; PostgreSQL reads 0 as no limit."""


class HitsTooLong(ConfigError):
    """The hits have more text than the caller takes."""


def choose_ranking(by: str | None = None, hybrid: bool | None = None) -> Ranking:
    """The ranking that is asked for, hybrid by default.

    Args:
        by: name of the ranking.
        hybrid: how it was asked for in earlier versions; True is "hybrid", False "vectors".
    """
    if by is not None and hybrid is not None:
        raise ConfigError("give by or hybrid, not both; hybrid is the earlier name")
    if hybrid is not None:
        return "hybrid" if hybrid else "vectors"
    if by not in (None, *get_args(Ranking)):
        raise ConfigError(f"unknown ranking {by!r}; choose {', '.join(get_args(Ranking))}")
    return cast("Ranking", by or "hybrid")


class SemanticIndex:
    """Documents that can be searched by meaning, in one file or in a PostgreSQL database.

        from relmo import SemanticIndex
        from relmo.search import Document

        documents = [
            Document("a", "letters", "The bank raised its rates.", meta={"year": 1950}),
            Document("b", "letters", "We sat on the bank and fished.", meta={"year": 1960}),
        ]
        with SemanticIndex.build("letters.relmo", documents) as index:   # create
            index.add([Document("c", "letters", "Boats went by.")])
            hits = index.search("interest on loans", k=3)                # list of Hit, best first
            hits[0].document, hits[0].score, hits[0].text
            index.explain("interest on loans", hits)[0].sentence         # why: an Explanation
            index.search("interest on loans", where={"year": {">=": 1955}}, by="vectors")
            index.update([Document("b", "letters", "We fished.")])
            index.delete(["a"])

        index = SemanticIndex.open("letters.relmo")                      # open again

    A document is split into passages; each passage is found, scored and returned on its own. Model
    and settings are chosen when the index is built, and stored with it (`IndexSettings`). Several
    threads may search one index, and several processes may read while one writes.
    """

    def __init__(self, store: Store, encoder: AnyEncoder, settings: IndexSettings) -> None:
        self.store, self.encoder, self.settings = store, encoder, settings
        self.analyze = make_analyzer(settings.language)

    # ── creating and opening ────────────────────────────────────────────────────────────────

    @classmethod
    def build(
        cls,
        where: str | Path,
        documents: Iterable[Document],
        *,
        settings: IndexSettings | None = None,
        elmo: Model | None = None,
    ) -> Self:
        """Create an index in a new file or a database, and add documents to it.

        Args:
            where: path or postgresql:// address; an error if it already contains an index, or if
                another process is creating it.
            documents: iterated twice, first to fit the encoder; an iterator is read into a list.
            settings: how text becomes vectors.
            elmo: the model, if it is already loaded.
        """
        if iter(documents) is documents:
            documents = list(documents)
        store = open_store(where, create=True)
        with store.closed_on_error():
            if store.read_header() is not None:
                raise ConfigError(f"{store.name} already contains an index; open and update it")
            # two documents of one key are an error before anything is stored
            index = cls.create(store, _with_own_keys(documents), settings or IndexSettings(), elmo)
            index.add(documents)
            store.unlock()
        return index

    @classmethod
    def create(
        cls,
        store: Store,
        documents: Iterable[Document],
        settings: IndexSettings,
        elmo: Model | None = None,
        show_progress_bar: bool = False,
    ) -> Self:
        """Fit an encoder to a sample of the documents, and write it into an empty store."""
        split = (split_passages(each, settings.passages, settings.max_words) for each in documents)
        texts = (passage.text for passages in split for passage in passages)
        return cls.of_passages(store, texts, settings, elmo, show_progress_bar)

    @classmethod
    def of_passages(
        cls,
        store: Store,
        texts: Iterable[str],
        settings: IndexSettings,
        elmo: Model | None = None,
        show_progress_bar: bool = False,
    ) -> Self:
        """Fit an encoder to a sample of passages, and write it into an empty store."""
        model = elmo or open_model(settings.model)
        make_analyzer(settings.language)  # report a missing stemmer before hours of work
        encoder, settings = fit_encoder(model, settings, texts, show_progress_bar)
        store.write_header(settings.to_json(), encoder.to_bytes(settings))
        return cls(store, encoder, settings)

    @classmethod
    def open(cls, where: str | Path, *, elmo: Model | None = None) -> Self:
        """Open an existing index, with the model that it was built with."""
        store = open_store(where, create=False)
        with store.closed_on_error():
            return cls.from_store(store, elmo)

    @classmethod
    def from_store(cls, store: Store, elmo: Model | None = None) -> Self:
        """The index in a store that is already open."""
        header = store.read_header()
        if header is None:
            raise ConfigError(f"{store.name}: contains no index yet; create one with: relmo index")
        with unreadable(store.name):
            settings = IndexSettings.from_json(header[0])
        model = model_of(settings, elmo)
        with unreadable(store.name):
            encoder = read_encoder(model, settings, header[1])
        return cls(store, encoder, settings)

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.counts().passages

    def counts(self) -> IndexCounts:
        """The number of documents and passages."""
        return self.store.counts()

    # ── changing ────────────────────────────────────────────────────────────────────────────

    def add(self, documents: Iterable[Document]) -> int:
        """Add documents and return their number; a key that already exists is an error."""
        return self.write(self._changed(documents, must_be_new=True))

    def update(self, documents: Iterable[Document]) -> int:
        """Add documents or replace those of equal key; return the number that changed."""
        return self.write(self._changed(documents, must_be_new=False))

    def delete(self, keys: Iterable[str]) -> None:
        """Delete documents; unknown keys are ignored."""
        self.store.replace([], list(keys))
        self.store.optimize()

    def write(self, documents: Iterable[Document]) -> int:
        """Add or replace documents without comparing them with the index; return their number."""
        unit, max_words = self.settings.passages, self.settings.max_words
        split = ((each, split_passages(each, unit, max_words)) for each in documents)
        count = 0
        # a document with very many passages is not divided: it is stored in one transaction
        for batch in in_windows(split, lambda pair: max(1, len(pair[1])), BATCH_PASSAGES):
            self.store_passages(batch)
            count += len(batch)
        self.store.optimize()
        return count

    def _changed(self, documents: Iterable[Document], must_be_new: bool) -> Iterator[Document]:
        """Documents that differ from what is known under their key, read source by source."""
        source: str | None = None
        digests: dict[str, str] = {}
        for document in _with_own_keys(documents) if must_be_new else documents:
            if must_be_new:
                if self.store.source_of(document.key) is not None:
                    raise ConfigError(f"the index already contains {document.key!r}; use update")
                yield document
                continue
            if document.source != source:
                source, digests = document.source, self.store.digests(document.source)
            if digests.get(document.key) != document.digest:
                digests[document.key] = document.digest
                yield document

    def store_passages(self, batch: Sequence[tuple[Stored, Sequence[Passage]]]) -> None:
        """Add documents or replace those of equal key, given their passages."""
        self.store.replace(self._embed(batch))

    def _embed(self, batch: Sequence[tuple[Stored, Sequence[Passage]]]) -> list[Entry]:
        """Documents with their passages, ready for the store."""
        texts = [[passage.text for passage in passages] for _, passages in batch]
        every = [text for own in texts for text in own]
        terms = [self.analyze(text) for text in every]
        starts = range(0, max(1, len(every)), BATCH_PASSAGES)  # of a document that is a long book
        slices = [slice(first, first + BATCH_PASSAGES) for first in starts]
        vectors = np.concatenate(
            [self.encoder.encode(every[part], terms[part]) for part in slices]
        )  # (N, D)
        ends = np.cumsum([len(own) for own in texts]).tolist()
        return [
            Entry(document, passages, vectors[end - len(own) : end], terms[end - len(own) : end])
            for (document, passages), own, end in zip(batch, texts, ends, strict=True)
        ]

    # ── searching ───────────────────────────────────────────────────────────────────────────

    def search(
        self,
        query: str | Corrected,
        k: int = 10,
        *,
        where: Where | None = None,
        by: Ranking | None = None,
        by_document: bool = False,
        copies: bool = False,
        correct: bool = True,
        hybrid: bool | None = None,
        max_seconds: float | None = None,
        max_characters: int | None = None,
    ) -> list[Hit]:
        """The passages that answer the query best, best first.

        Args:
            query: a few words or sentences, or what `read_query` made of them.
            k: maximum number of hits.
            where: conditions on metadata, see `filters.py`.
            by: what ranks the passages: "hybrid" (default), words and vectors together; "vectors",
                cosines; or "words", BM25, which finds only passages with a word of the query.
            by_document: return only the best passage of each document.
            copies: return near-copies of better hits too (`copies.py`), instead of counting them.
            correct: replace words with typing errors, see `correct`.
            hybrid: earlier name of `by`; True is "hybrid", False "vectors".
            max_seconds: time for the store, the model not counted; `SearchTimeout` after that.
            max_characters: of the texts and metadata of all hits; `HitsTooLong` above.
        """
        if k < 1:
            raise ConfigError(f"k must be an integer ≥ 1, got {k}")
        ranking = choose_ranking(by, hybrid)
        begun = time.monotonic()
        read = self.read_query(query, correct=correct, max_seconds=max_seconds)
        if max_seconds is not None:
            max_seconds = max(max_seconds - (time.monotonic() - begun), MIN_SECONDS)
        vector = None if ranking == "words" else self.encoder.encode([read.text])[0]  # (D,)
        terms = {} if ranking == "vectors" else read.terms
        limited = nullcontext() if max_seconds is None else self.store.deadline(max_seconds)
        with limited, self.store.one_state():
            asked = conditions(where)
            closer = self._reader.of(read.text) if ranking == "hybrid" and self._reader else None
            return self._search(
                vector, terms, closer, k, asked, by_document, copies, max_characters
            )

    def explain(
        self, query: str | Corrected, hits: Sequence[Hit], *, correct: bool = True
    ) -> list[Explanation]:
        """Why hits were found: the best sentence of each, its words, the parts of its score.

        Takes about as long as embedding the hits' sentences, which `search` does not do.

        Args:
            query: as it was given to `search`.
            hits: what `search` has returned, or those of them that are shown.
            correct: whether `search` replaced words with typing errors.
        """
        read = self.read_query(query, correct=correct)
        return explain_hits(self.encoder, self.analyze, read.text, hits)

    def correct(self, query: str, *, max_seconds: float | None = None) -> Corrected:
        """The query as `search` reads it: words with a typing error replaced by those of the index.

        A query whose words all occur in the index stays as it is.
        """
        limited = nullcontext() if max_seconds is None else self.store.deadline(max_seconds)
        with limited, self.store.one_state():
            return self._speller.correct(query)

    def read_query(
        self, query: str | Corrected, *, correct: bool = True, max_seconds: float | None = None
    ) -> Corrected:
        """What is searched for: the query corrected, or as it is; `search` and `explain` take it.

        A query that was read is not read again.
        """
        if isinstance(query, Corrected):
            return query
        if correct:
            return self.correct(query, max_seconds=max_seconds)
        return Corrected(query, weights_of(self.analyze(query)))

    @cached_property
    def _reader(self) -> CloserReader | None:
        """Compares word by word, where the model has vectors of words alone."""
        encoder = self.encoder
        if not isinstance(encoder, TrainedEncoder) or not encoder.model.reads_words_alone:
            return None
        return CloserReader(encoder.model, self.store, self.analyze, self.settings.language)

    @cached_property
    def _speller(self) -> Speller:
        lexicon = self.encoder.elmo.lexicon
        return Speller(self.store, self.settings.language, self.analyze, lexicon)

    def _search(
        self,
        vector: Vectors | None,
        terms: Terms,
        closer: Closer | None,
        k: int,
        where: Conditions,
        by_document: bool,
        copies: bool,
        max_characters: int | None,
    ) -> list[Hit]:
        count, documents = k, 0
        if by_document:  # do not look for more than there are
            documents = self.store.counts().documents
            k = min(k, max(1, documents))
        while True:
            scored = ranked(self.store, vector, terms, count, where, closer, self.encoder.fusion)
            kept = self.store.best_of_documents(scored) if by_document else scored
            is_all = len(scored) < count or (by_document and len(kept) >= documents)
            if len(kept) >= k or is_all:
                loaded = self._load(kept, k, max_characters)
                hits = list(islice(loaded, k)) if copies else distinct_hits(loaded, k)
                if len(hits) >= k or is_all or len(kept) >= max(k, MAX_LOOKED):
                    _check_size(sum(map(_characters, hits)), max_characters)
                    return hits
            count *= 4  # many passages of the same documents, or near-copies: look further

    def _load(self, scored: Sequence[Scored], size: int, most: int | None) -> Iterator[Hit]:
        """The hits in order, so many at a time, none of which have more characters than `most`."""
        for first in range(0, len(scored), size):
            part = scored[first : first + size]
            if most is not None:  # before texts of that size are in memory
                _check_size(self.store.characters(part), most)
            yield from self.store.hits(part)


def _check_size(characters: int, most: int | None) -> None:
    if most is not None and characters > most:
        raise HitsTooLong(f"the hits have more than {most:,} characters")


def _characters(hit: Hit) -> int:
    """Characters of a hit's text and metadata, as `Store.characters` counts them."""
    return len(hit.text) + len(json.dumps(hit.meta))


def _with_own_keys(documents: Iterable[Document]) -> Iterator[Document]:
    """The documents; ConfigError if two have the same key."""
    seen: set[str] = set()
    for document in documents:
        if document.key in seen:
            raise ConfigError(
                f"two documents have the key {document.key!r}; make keys unique, or "
                f"use update, which keeps the last of them"
            )
        seen.add(document.key)
        yield document
