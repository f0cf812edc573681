"""Search by meaning. Start at `index.py`: SemanticIndex.

Documents flow into passages, passages into vectors and terms, both into a store:

    readers.py tables.py      files -> documents (documents.py); what cannot be read is named
    passages.py               documents -> passages with their places
    encoder.py                passages -> vectors: word_weights.py, isotropy.py, fitted to sample.py
    terms.py                  passages -> terms, for the lexical score
    store.py                  what a store must do: embedded.py is one SQLite file, searched in
                              memory (rows.py, bm25.py, compact.py); postgres.py a server
    fusion.py                 words and vectors together
    sync.py                   all of it for files: `relmo index`
    evaluate.py               how good a ranking is
"""

from relmo.search.documents import Document
from relmo.search.index import Hit, SemanticIndex
from relmo.search.settings import Settings

__all__ = ["Document", "Hit", "SemanticIndex", "Settings"]
