"""Semantic search. Start at `index.py`: SemanticIndex.

Documents are split into passages; each passage gets a vector and a list of terms, kept in a store:

    documents.py    files -> documents -> passages; rows that cannot be read are reported
    trained.py      passages -> unit-length vectors, by a trained encoder and latent.py, dimensions
                    fitted to their words; encoder.py does it with an ELMo, models.py opens both
    lexical.py      passages -> terms, their BM25 scores, and hybrid ranking with vectors
    closer.py       the first passages of a ranking, read word by word
    spelling.py     a query with typing errors -> the terms and the text that are searched for
    filters.py      conditions on metadata
    store.py        the interface of a store: sqlite.py (one file; its checksum and lock are in
                    sqlite_file.py), postgres.py (a server)
    copies.py       near-copies among hits
    explain.py      why a hit was found: its best sentence, its words, the parts of its score
    index.py        build, update and search an index
    sync.py         keep an index in step with files: what `relmo index` does
    rebuild.py      build an index anew from its passages
"""

from relmo.search.documents import Document
from relmo.search.explain import Explanation
from relmo.search.index import SemanticIndex
from relmo.search.settings import IndexSettings
from relmo.search.store import Hit

__all__ = ["Document", "Explanation", "Hit", "IndexSettings", "SemanticIndex"]
