"""An index is built anew from its own passages, and stays as it was if that fails."""

import pytest

from relmo import Elmo, SemanticIndex
from relmo.errors import ConfigError
from relmo.search import Document
from relmo.search.rebuild import rebuild_index
from relmo.search.settings import IndexSettings

TEXTS = {
    "a": "The bank raised its rates.",
    "b": "We sat on the bank.\n\nIt rained! 水 é 😀",
    "c": "",
}


@pytest.fixture
def made(tmp_path, small):
    path = tmp_path / "i.relmo"
    documents = [Document(key, f"{key}.txt", text, meta={"n": 1}) for key, text in TEXTS.items()]
    settings = IndexSettings(model="relmo-en-small", max_words=7, language="none")
    SemanticIndex.build(path, documents, settings=settings, elmo=small).close()
    return path


@pytest.fixture(scope="module")
def small():
    return Elmo.from_pretrained("relmo-en-small")


def found(path, elmo):
    with SemanticIndex.open(path, elmo=elmo) as index:
        hits = index.search("the bank in the rain", 9)
        digests = {key: index.store.digests(f"{key}.txt") for key in "ab"}
        return index.settings, {(h.document, h.start, h.text, h.meta["n"]) for h in hits}, digests


def test_passages_documents_and_how_they_were_cut_are_kept(made, small):
    before = found(made, small)
    settings = rebuild_index(made, model="relmo-en-small", elmo=small)
    after = found(made, small)
    assert after[1:] == before[1:]
    assert (settings.max_words, settings.language) == (7, "none")
    assert not settings.is_old
    assert sorted(path.name for path in made.parent.iterdir()) == ["i.relmo"]


def test_an_index_that_cannot_be_built_anew_stays(made, small, monkeypatch):
    before = made.read_bytes()
    monkeypatch.setattr(SemanticIndex, "store_passages", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        rebuild_index(made, elmo=small)
    assert made.read_bytes() == before
    assert [path.name for path in made.parent.iterdir()] == ["i.relmo"]


def test_a_database_is_not_replaced():
    with pytest.raises(ConfigError, match="another relmo_index"):
        rebuild_index("postgresql://me@here/db")
