"""A real index behind /search: the hits are those of SemanticIndex itself."""

import dataclasses

import pytest

from relmo import Elmo
from relmo.errors import ConfigError
from relmo.search import Document, IndexSettings, SemanticIndex
from relmo.serve.shelf import Shelf
from tests.conftest import tiny_config

TEXTS = [f"The {a} of the {b}." for a in ("bank", "boat", "rate") for b in ("river", "town", "sea")]
PLAIN = IndexSettings(language="none", weighting="corpus")


@pytest.fixture
def place(tmp_path, tiny) -> str:
    documents = [
        Document(f"d{i}", "file", text, meta={"n": 10**30 + i}) for i, text in enumerate(TEXTS)
    ]
    for i, more in enumerate(({"lang": "en", "year": 1950}, {"lang": "de", "year": 1960})):
        documents[i] = dataclasses.replace(documents[i], meta={**documents[i].meta, **more})
    path = tmp_path / "index.relmo"
    SemanticIndex.build(path, documents, settings=PLAIN, elmo=tiny).close()
    return str(path)


@pytest.mark.parametrize("hybrid", [False, True])
def test_hits_are_those_of_the_index(make_client, place, tiny, hybrid):
    shelf = Shelf.open(place, tiny)
    wanted = shelf.index.search("a river bank", 3, hybrid=hybrid)
    body = {"query": "a river bank", "k": 3, "hybrid": hybrid}
    answer = make_client(index=shelf).post("/search", json=body)
    assert answer.status_code == 200, answer.text
    hits = answer.json()["hits"]
    assert [hit["document"] for hit in hits] == [hit.document for hit in wanted]
    assert [hit["text"] for hit in hits] == [hit.text for hit in wanted]
    assert hits[0]["meta"] == wanted[0].meta  # also numbers beyond 64 bits
    assert hits[0]["score"] == pytest.approx(wanted[0].score)
    shelf.close()


def test_filters_and_documents_are_those_of_the_index(make_client, place, tiny):
    shelf = Shelf.open(place, tiny)
    client = make_client(index=shelf)
    body = {"query": "a river bank", "where": {"lang": ["en", "de"], "year": {">=": 1951}}}
    assert [hit["document"] for hit in client.post("/search", json=body).json()["hits"]] == ["d1"]
    body = {"query": "a river bank", "k": 99, "documents": True}
    found = [hit["document"] for hit in client.post("/search", json=body).json()["hits"]]
    assert sorted(found) == sorted(set(found)) == [f"d{i}" for i in range(len(TEXTS))]
    shelf.close()


@pytest.mark.parametrize(
    "where", [{"a": {"~": 1}}, {"a": "\0"}, {"a": 2**64}, {"a": [[1]]}, {"": 1}, {"a": {"<": None}}]
)
def test_conditions_that_cannot_be_are_refused(make_client, place, tiny, where):
    shelf = Shelf.open(place, tiny)
    answer = make_client(index=shelf).post("/search", json={"query": "a", "where": where})
    assert (answer.status_code, answer.json()["error"]["param"]) == (422, "where")
    shelf.close()


def test_an_index_of_another_model_is_refused(place):
    with pytest.raises(ConfigError, match="another model"):
        Shelf.open(place, Elmo.untrained(tiny_config(), seed=2))


def test_an_index_that_is_not_there_is_refused(tmp_path, tiny):
    with pytest.raises(ConfigError):
        Shelf.open(str(tmp_path / "none.relmo"), tiny)
