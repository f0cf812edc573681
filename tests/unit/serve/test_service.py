"""Requests against the limits, an index behind /search, and vectors that ignore their batch."""

import dataclasses
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from relmo import Elmo
from relmo.errors import ConfigError, OutputError
from relmo.search import Document, IndexSettings, SemanticIndex
from relmo.search.documents import Passage
from relmo.search.store import Entry
from tests.conftest import tiny_config
from tests.support.serving import live, until

pytest.importorskip("fastapi", reason="pip install 'relmo[serve]'")
from relmo.serve.limits import Limits

NUMBERED = [" ".join(f"w{(i * j) % 17}" for j in range(1 + i % 23)) + "." for i in range(60)]
TEXTS = [f"The {a} of the {b}." for a in ("bank", "boat", "rate") for b in ("river", "town", "sea")]
PLAIN = IndexSettings(language="none", weighting="corpus")


@pytest.fixture
def limited(make_client):
    """A client of a server with small limits."""
    return make_client(
        limits=Limits(
            body_bytes=2000, texts=3, tokens=20, sentence_tokens=10, values=500, results=5
        )
    )


def refused(answer, status: int, code: str) -> str:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["code"] == code
    return error["message"]


def test_a_large_body_is_413(limited):
    said = refused(
        limited.post("/v1/embeddings", json={"input": "a" * 3000}), 413, "body_too_large"
    )
    assert "2,000 bytes" in said


def test_a_large_body_of_unknown_length_is_413(limited):
    parts = (b"x" * 500 for _ in range(10))
    refused(limited.post("/v1/embeddings", content=parts), 413, "body_too_large")


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/v1/embeddings", {"input": ["a"] * 4}, "too_many_texts"),
        ("/v1/embeddings", {"input": ["a b c d e f g. Hi there."] * 3}, "too_many_tokens"),
        ("/v1/embeddings", {"input": "a b c d e f g h i j k"}, "sentence_too_long"),
        ("/embed_tokens", {"sentences": ["a"] * 4}, "too_many_texts"),
        ("/embed_tokens", {"sentences": ["a b c d e f g h"] * 3}, "too_many_tokens"),
        ("/embed_tokens", {"sentences": [["a"] * 11]}, "sentence_too_long"),
        ("/embed_tokens", {"sentences": [["a"] * 10] * 2}, "answer_too_large"),
        ("/substitutes", {"sentence": ["a"] * 11, "position": 0}, "sentence_too_long"),
        ("/substitutes", {"sentence": "a", "position": 0, "k": 6}, "too_many_results"),
    ],
)
def test_too_much_in_one_request(limited, path, body, code):
    said = refused(limited.post(path, json=body), 400 if "v1" in path else 422, code)
    limit = {"too_many_texts": 3, "too_many_tokens": 20, "sentence_too_long": 10,
             "answer_too_large": 500, "too_many_results": 5}[code]  # fmt: skip
    assert f"exceed the limit of {limit};" in said


def test_within_the_limits_all_is_well(limited):
    body = {"input": ["a b c d e f g h i j"] * 2}
    assert limited.post("/v1/embeddings", json=body).status_code == 200
    body = {"sentences": [["a"] * 10] * 2, "layers": "top"}
    assert limited.post("/embed_tokens", json=body).status_code == 200


def test_a_body_that_does_not_come_is_408(make_app):
    httpx = pytest.importorskip("httpx", reason="pip install httpx")
    with live(make_app(limits=Limits(body_seconds=1))) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as slow:
            slow.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n")
            slow.sendall(b"Content-Length: 100\r\n\r\n{")
            assert slow.recv(100).startswith(b"HTTP/1.1 408")
        assert httpx.get(f"{url}/health").status_code == 200


def test_a_full_queue_is_429_with_retry_after_and_health_still_answers(make_app):
    httpx = pytest.importorskip("httpx", reason="pip install httpx")
    app = make_app(limits=Limits(queue_requests=2))
    batcher = app.state.service.batcher
    read, gate = batcher._embed, threading.Event()
    batcher._embed = lambda sentences: (gate.wait(20), read(sentences))[1]
    statuses: list[int] = []
    with live(app) as url, httpx.Client(base_url=url, timeout=30) as client:

        def ask() -> None:
            answer = httpx.post(f"{url}/v1/embeddings", json={"input": "a"}, timeout=30)
            statuses.append(answer.status_code)

        askers = [threading.Thread(target=ask) for _ in range(2)]
        for asker in askers:
            asker.start()
        until(lambda: batcher.requests == 2)
        answer = client.post("/v1/embeddings", json={"input": "b"})
        refused(answer, 429, "queue_full")
        assert int(answer.headers["retry-after"]) >= 1
        assert client.get("/health").status_code == 200
        assert "relmo_queue_requests 2.0" in client.get("/metrics").text
        gate.set()
        for asker in askers:
            asker.join()
        assert statuses == [200, 200]
        assert client.post("/v1/embeddings", json={"input": "b"}).status_code == 200


def test_a_closed_server_is_not_ready_and_refuses(client):
    client.app.state.service.batcher.close()
    assert client.get("/health").status_code == 200
    assert client.get("/ready").status_code == 503
    refused(client.post("/v1/embeddings", json={"input": "a"}), 503, "going_down")


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


@pytest.mark.parametrize("by", ["hybrid", "vectors", "words"])
def test_hits_are_those_of_the_index(make_client, place, tiny, by):
    index = SemanticIndex.open(place, elmo=tiny)
    wanted = index.search("a river bank", 3, by=by)
    body = {"query": "a river bank", "k": 3, "by": by}
    answer = make_client(index=index).post("/search", json=body)
    assert answer.status_code == 200, answer.text
    hits = answer.json()["hits"]
    assert [hit["document"] for hit in hits] == [hit.document for hit in wanted]
    assert [hit["text"] for hit in hits] == [hit.text for hit in wanted]
    assert hits[0]["meta"] == wanted[0].meta  # also numbers beyond 64 bits
    assert hits[0]["score"] == pytest.approx(wanted[0].score)
    index.close()


def test_filters_and_documents_are_those_of_the_index(make_client, place, tiny):
    index = SemanticIndex.open(place, elmo=tiny)
    client = make_client(index=index)
    body = {"query": "a river bank", "where": {"lang": ["en", "de"], "year": {">=": 1951}}}
    assert [hit["document"] for hit in client.post("/search", json=body).json()["hits"]] == ["d1"]
    body = {"query": "a river bank", "k": 99, "documents": True}
    found = [hit["document"] for hit in client.post("/search", json=body).json()["hits"]]
    assert sorted(found) == sorted(set(found)) == [f"d{i}" for i in range(len(TEXTS))]
    index.close()


def test_hits_are_explained_if_that_is_asked_for(make_client, place, tiny):
    index = SemanticIndex.open(place, elmo=tiny)
    client, body = make_client(index=index), {"query": "a river bank", "k": 3}
    plain = client.post("/search", json=body).json()["hits"]
    assert all("explanation" not in hit for hit in plain)
    hits = client.post("/search", json={**body, "explain": True}).json()["hits"]
    wanted = index.explain("a river bank", index.search("a river bank", 3))
    for hit, why in zip(hits, wanted, strict=True):
        found = hit.pop("explanation")
        assert tuple(found["sentence"]) == why.sentence == (0, len(hit["text"]))
        assert tuple(map(tuple, found["words"])) == why.words
        assert found["by_words"] == why.by_words == pytest.approx(1 - found["by_meaning"])
    assert hits == plain
    index.close()


def test_an_explanation_counts_in_the_queue_by_what_is_read(served, make_client):
    client = make_client(index=served)
    batcher = client.app.state.service.batcher
    costs, call = [], batcher.call
    batcher.call = lambda work, cost: costs.append(cost) or call(work, cost)
    client.post("/search", json={"query": "river", "k": 10, "explain": True})
    assert len(costs) == 2
    assert costs[1] == 64 + 10 * len("a river bank 0") // 6


def test_near_copies_are_counted_unless_they_are_asked_for(make_client, tmp_path, tiny):
    texts = ["A river bank.", "A RIVER BANK", "A river town."]
    documents = [Document(f"d{i}", "s", text) for i, text in enumerate(texts)]
    index = SemanticIndex.build(tmp_path / "copies", documents, settings=PLAIN, elmo=tiny)
    client, body = make_client(index=index), {"query": "river bank", "by": "words"}
    hits = client.post("/search", json=body).json()["hits"]
    assert [(hit["document"], hit["copies"]) for hit in hits] == [("d0", 1), ("d2", 0)]
    hits = client.post("/search", json={**body, "copies": True}).json()["hits"]
    assert [(hit["document"], hit["copies"]) for hit in hits] == [("d0", 0), ("d1", 0), ("d2", 0)]
    index.close()


@pytest.mark.parametrize(
    "where",
    [{"a": {"~": 1}}, {"a": "\0"}, {"a": 2**64}, {"a": [[1]]}, {"": 1}, {"a": {"<": None}},
     {"year": list(range(5000))}, {str(i): 1 for i in range(900)}],
)  # fmt: skip
def test_conditions_that_cannot_be_are_refused(make_client, place, tiny, where):
    index = SemanticIndex.open(place, elmo=tiny)
    answer = make_client(index=index).post("/search", json={"query": "a", "where": where})
    assert (answer.status_code, answer.json()["error"]["param"]) == (422, "where")
    index.close()


@pytest.mark.parametrize("by", ["hybrid", "vectors", "words"])
def test_as_many_conditions_as_are_allowed_are_answered(make_client, place, tiny, by):
    index = SemanticIndex.open(place, elmo=tiny)
    where = {"year": list(range(1900, 2000))} | {f"k{i}": {"!=": 1} for i in range(15)}
    body = {"query": "a river bank", "where": where, "by": by}
    answer = make_client(index=index).post("/search", json=body)
    assert {hit["document"] for hit in answer.json()["hits"]} == {"d0", "d1"}
    full = {f"k{i}": list(range(100)) for i in range(16)}
    answer = make_client(index=index).post("/search", json={**body, "where": full})
    assert (answer.status_code, answer.json()["hits"]) == (200, [])
    index.close()


def test_an_index_of_another_model_is_refused(place):
    with pytest.raises(ConfigError, match="another model"):
        SemanticIndex.open(place, elmo=Elmo.untrained(tiny_config(), seed=2))


def test_an_index_that_is_not_there_is_refused(tmp_path, tiny):
    with pytest.raises(ConfigError):
        SemanticIndex.open(tmp_path / "none.relmo", elmo=tiny)


def test_a_vector_does_not_depend_on_its_neighbours(make_app, tiny):
    httpx = pytest.importorskip("httpx", reason="pip install httpx")
    alone = np.stack([tiny.encode([text], normalize_embeddings=True)[0] for text in NUMBERED])
    app = make_app()
    sizes: list[int] = []
    batcher = app.state.service.batcher
    read = batcher._embed
    batcher._embed = lambda sentences: (sizes.append(len(sentences)), read(sentences))[1]
    with live(app) as url, httpx.Client(base_url=url, timeout=60) as client:

        def ask(number: int) -> np.ndarray:
            answer = client.post("/v1/embeddings", json={"input": NUMBERED[number]})
            return np.array(answer.json()["data"][0]["embedding"], np.float32)

        with ThreadPoolExecutor(16) as pool:
            found = np.stack(list(pool.map(ask, range(len(NUMBERED)))))
        together = client.post("/v1/embeddings", json={"input": NUMBERED[::-1]}).json()["data"]
    np.testing.assert_allclose(found, alone, atol=1e-5)
    many = np.array([each["embedding"] for each in together])[::-1]
    np.testing.assert_allclose(many, alone, atol=1e-5)
    assert max(sizes) > 1  # they were read together


@pytest.fixture
def served(tiny, tmp_path):
    """An index of ten documents with long metadata."""
    documents = [
        Document(f"d{i}", "s", f"a river bank {i}", meta={"note": "x" * 999}) for i in range(10)
    ]
    with SemanticIndex.build(tmp_path / "i", documents, settings=PLAIN, elmo=tiny) as index:
        yield index


def test_hits_are_limited_in_size_and_count_as_memory(served, make_client):
    client = make_client(index=served, limits=Limits(hit_characters=5000))
    found = client.post("/search", json={"query": "river", "k": 4}).json()
    assert len(found["hits"]) == 4, found
    error = client.post("/search", json={"query": "river", "k": 6})
    assert (error.status_code, error.json()["error"]["code"]) == (422, "answer_too_large")

    client = make_client(index=served, limits=Limits(memory_bytes=1))
    client.app.state.memory.used = 1  # another request
    served.store.replace([big_entry(served.encoder.elmo.config.width)])
    error = client.post("/search", json={"query": "river", "k": 11})
    assert (error.status_code, error.json()["error"]["code"]) == (429, "server_busy")


def big_entry(width):
    document = Document("big", "s", "river", meta={"note": "x" * 99_999})
    vector = np.full((1, width), 0.1, np.float32)
    return Entry(document, [Passage(0, 5, 1, "river")], vector, [["river"]])


def endless(index):
    """The index, of which no search ends by itself."""

    def nearest(*_):
        with index.store._session():
            counting = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
            index.store._run(f"{counting} SELECT max(x) FROM c").fetchone()

    index.store.nearest = nearest
    return index


def test_a_search_that_does_not_end_is_ended(served, make_client):
    client = make_client(index=endless(served), limits=Limits(search_seconds=1))
    error = client.post("/search", json={"query": "river"})
    assert (error.status_code, error.json()["error"]["code"]) == (503, "search_timeout")


def test_a_search_that_does_not_end_does_not_keep_the_server(served, make_app, monkeypatch):
    monkeypatch.setattr("relmo.serve.service.CLOSE_SECONDS", 0.2)
    service = make_app(index=endless(served)).state.service
    future = service.batcher.call(lambda: endless(served).search("river"), 9)
    begin = time.monotonic()
    service.close()
    assert time.monotonic() - begin < 2
    assert isinstance(future.exception(5), OutputError)


def test_a_search_counts_in_the_queue_as_the_time_that_searches_take(served, make_client):
    client = make_client(index=served)
    service = client.app.state.service
    service.batcher.rate, costs, call = 1e6, [], service.batcher.call
    service.batcher.call = lambda work, cost: costs.append(cost) or call(work, cost)
    search = served.search
    served.search = lambda *args, **options: time.sleep(0.02) or search(*args, **options)
    for where in ({}, {"a": 1}):
        client.post("/search", json={"query": "river", "where": where})
    assert costs[0] == 65
    assert costs[1] > 2 * 20_000


def test_requests_of_clients_that_left_leave_the_queue(make_app):
    app = make_app()
    gate, batcher = threading.Event(), app.state.service.batcher
    held = batcher.call(lambda: gate.wait(10), 1)
    body = b'{"input": "a river bank"}'
    head = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    try:
        with live(app) as address:
            place = ("127.0.0.1", int(address.rpartition(":")[2]))
            with socket.create_connection(place) as client:
                client.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                until(lambda: len(batcher._waiting) == 1)
            until(lambda: batcher._waiting[0].future.cancelled())
            gate.set()
            assert held.result(10)
            until(lambda: batcher.requests == 0)
    finally:
        gate.set()
