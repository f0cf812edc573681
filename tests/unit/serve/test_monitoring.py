"""Logs and counters: every request once, and no user's text anywhere."""

import json
import logging

import pytest

SECRET = "Zyxwvut"


@pytest.fixture
def lines(caplog):
    """Log lines as they would be written."""
    pytest.importorskip("fastapi", reason="pip install 'relmo[serve]'")
    from relmo.serve.monitoring import JsonFormatter

    caplog.set_level(logging.INFO, "relmo.serve")
    return lambda: [
        json.loads(JsonFormatter().format(r)) for r in caplog.records if r.name == "relmo.serve"
    ]


def test_a_request_is_one_line_with_its_numbers(lines, client):
    answer = client.post("/v1/embeddings", json={"input": ["a b.", "c"]})
    (line,) = lines()
    assert line["event"] == "request"
    assert (line["method"], line["route"], line["status"]) == ("POST", "/v1/embeddings", 200)
    assert (line["texts"], line["tokens"]) == (2, 4)
    assert line["id"] == answer.headers["x-request-id"]
    assert line["ms"] > 0


def test_no_text_reaches_the_log(lines, client):
    client.app.state.service.batcher._embed = lambda s: 1 / 0 if "fail" in s[0] else [] * len(s)
    for path, body in [
        ("/v1/embeddings", {"input": f"{SECRET} fail"}),
        ("/v1/embeddings", {"input": [SECRET, 3]}),
        ("/v1/embeddings", {"input": "a", "model": SECRET}),
        ("/v1/embeddings", {"input": "a", SECRET: 1}),
        ("/embed_tokens", {"sentences": [[f"{SECRET} x"]]}),
        ("/search", {"query": SECRET}),
        (f"/{SECRET}?q={SECRET}", {}),
    ]:
        client.post(path, json=body, headers={"user-agent": SECRET, "x-request-id": SECRET})
    assert len(lines()) == 7
    assert SECRET not in json.dumps(lines())


def test_what_nobody_expected_is_a_500_whose_reason_is_in_the_log_alone(lines, client):
    client.app.state.service.batcher._embed = lambda sentences: {}[SECRET]
    answer = client.post("/v1/embeddings", json={"input": "a"})
    assert answer.status_code == 500
    (line,) = lines()
    assert line["id"] in answer.json()["error"]["message"]
    assert SECRET not in answer.text
    assert (line["level"], line["error"]["type"]) == ("error", "KeyError")
    assert any(step.startswith("batcher.py:") for step in line["error"]["at"])
    assert client.get("/ready").status_code == 200  # the worker lives on


def test_counters_follow(client):
    for _ in range(3):
        client.post("/v1/embeddings", json={"input": "a b"})
    client.get("/nowhere/at/all")
    found = client.get("/metrics").text
    asked = 'relmo_requests_total{method="POST",route="/v1/embeddings",status="200"} 3.0'
    assert asked in found
    assert 'route="other",status="404"' in found
    assert "relmo_tokens_total 12.0" in found  # with the boundaries
    assert "relmo_batch_tokens_count 3.0" in found
    assert "relmo_queue_tokens 0.0" in found


def test_the_routes_are_described_without_outside_requests(client):
    page = client.get("/docs").text
    assert "POST /v1/embeddings" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert "/v1/embeddings" in client.get("/openapi.json").json()["paths"]
