"""Every limit is answered with its status, a message and nothing worse."""

import threading

import pytest

from tests.support.serving import live, until


@pytest.fixture
def limited(make_client):
    """A client of a server with small limits."""
    pytest.importorskip("fastapi", reason="pip install 'relmo[serve]'")
    from relmo.serve.settings import Limits

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
    assert any(letter.isdigit() for letter in said)  # the limit is named


def test_within_the_limits_all_is_well(limited):
    body = {"input": ["a b c d e f g h i j"] * 2}
    assert limited.post("/v1/embeddings", json=body).status_code == 200
    body = {"sentences": [["a"] * 10] * 2, "layers": "top"}
    assert limited.post("/embed_tokens", json=body).status_code == 200


def test_a_body_that_does_not_come_is_408(make_app):
    httpx = pytest.importorskip("httpx", reason="pip install httpx")
    import socket

    from relmo.serve.settings import Limits

    with live(make_app(limits=Limits(body_seconds=1))) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as slow:
            slow.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n")
            slow.sendall(b"Content-Length: 100\r\n\r\n{")
            assert slow.recv(100).startswith(b"HTTP/1.1 408")
        assert httpx.get(f"{url}/health").status_code == 200


def test_a_full_queue_is_429_with_retry_after_and_health_still_answers(make_app):
    httpx = pytest.importorskip("httpx", reason="pip install httpx")
    from relmo.serve.settings import Limits

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
    client.app.state.service.close()
    assert client.get("/health").status_code == 200
    assert client.get("/ready").status_code == 503
    refused(client.post("/v1/embeddings", json={"input": "a"}), 503, "going_down")
