"""Limits hold before the work they bound is done: values, fields, characters, memory."""

import json
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.serving import EXTRA

pytest.importorskip("fastapi", reason=EXTRA)
from relmo.serve import limits as module
from relmo.serve.errors import ApiError
from relmo.serve.limits import FREE_BYTES, Limits, Memory, check_shape

JSON = {"content-type": "application/json"}


def bomb(num_items: int, start: bytes = b'{"sentences":[', end: bytes = b"]}") -> bytes:
    return start + b",".join([b"0"] * num_items) + end


def fields(count: int) -> bytes:
    return b"{%s}" % b",".join(b'"k%d":0' % number for number in range(count))


@pytest.mark.parametrize(
    "body",
    [
        bomb(2_000_000),
        b"[" * 4_000_000,
        b'{"a":[' + b"{}," * 1_300_000,
        b'["a"' + b',"b"' * 1_000_000,
        b'{"input":"' + b"," * 2_000_000 + b'", "user":[' + b"1," * 1_000_000,
    ],
)
def test_millions_of_values_are_refused_without_parsing(body):
    begin = time.perf_counter()
    with pytest.raises(ApiError) as found:
        check_shape(body, Limits())
    assert (found.value.status, found.value.code) == (413, "too_many_values")
    assert time.perf_counter() - begin < 2  # parsed and validated, this took a minute


@pytest.mark.parametrize("text", ["," * 500_000, '["\\' * 100_000, '{":' * 100_000, "\\" * 300_000])
def test_what_is_inside_a_string_is_one_value(text):
    check_shape(json.dumps({"input": text}).encode(), Limits())


def test_many_fields_are_refused():
    check_shape(fields(Limits().keys), Limits())
    with pytest.raises(ApiError, match="more than 5,120 field names"):
        check_shape(fields(350_000), Limits())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32-be"])
def test_only_utf8_is_counted_and_read(client, encoding):
    body = json.dumps({"input": "a"}).encode(encoding)
    answer = client.post("/v1/embeddings", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "not_utf8")


def count(value: object) -> tuple[int, int]:
    """Values after the first, and keys."""
    if not isinstance(value, list | dict):
        return 0, 0
    inner = [count(each) for each in (value.values() if isinstance(value, dict) else value)]
    own = 1 + max(0, len(value) - 1), len(value) if isinstance(value, dict) else 0
    return own[0] + sum(v for v, _ in inner), own[1] + sum(k for _, k in inner)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.recursive(
        st.none() | st.integers() | st.text('",:[{\\é', max_size=6),
        lambda inner: (
            st.lists(inner, max_size=5)
            | st.dictionaries(st.text('":,', max_size=3), inner, max_size=5)
        ),
        max_leaves=12,
    ),
    st.booleans(),
)
def test_values_and_keys_are_counted_exactly(value, is_ascii):
    body = json.dumps(value, ensure_ascii=is_ascii).encode()
    values, keys = count(value)
    before, module.MAX_KEYS = module.MAX_KEYS, 1
    try:
        limits = Limits(texts=1, tokens=4)  # six values, three keys
        if values > limits.items or keys > limits.keys:
            with pytest.raises(ApiError):
                check_shape(body, limits)
        else:
            check_shape(body, limits)
    finally:
        module.MAX_KEYS = before


@pytest.mark.parametrize("path", ["/v1/embeddings", "/embed_tokens", "/word_map", "/search"])
def test_bodies_of_many_values_or_fields_are_413(client, path):
    for body, code in ((bomb(500_000), "too_many_values"), (fields(90_000), "too_many_fields")):
        answer = client.post(path, content=body, headers=JSON)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, code)


def test_errors_of_many_items_are_one_error(client):
    answer = client.post("/embed_tokens", json={"sentences": ["a", *[3] * 60_000]})
    assert answer.status_code == 422
    assert answer.json()["error"]["message"].startswith("sentences: sentence 1: expected a string")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": "a " * 300_000}),
        ("/v1/embeddings", {"input": ["a" * 300_000, "b" * 300_000]}),
        ("/embed_tokens", {"sentences": [["a" * 600_000]]}),
        ("/word_map", {"word": "a", "sentences": ["a " * 300_000]}),
        ("/substitutes", {"sentence": "!" * 600_000, "position": 0}),
        ("/surprisal", {"sentence": "!" * 600_000}),
        ("/senses", {"word": "a", "text": "a " * 300_000}),
        ("/change", {"word": "a" * 500_000, "before": "a " * 7_000, "after": "a " * 7_000}),
    ],
)
def test_long_text_is_refused_before_it_is_tokenized(client, monkeypatch, path, body):
    monkeypatch.setattr(client.app.state.service.elmo, "tokens", None)
    answer = client.post(path, json=body)
    assert answer.status_code == (400 if path.startswith("/v1") else 422)
    assert answer.json()["error"]["code"] == "too_many_characters"


def test_a_sentence_far_too_long_is_refused_by_its_beginning(client, monkeypatch):
    elmo, lengths = client.app.state.service.elmo, []
    read = elmo.tokens
    monkeypatch.setattr(elmo, "tokens", lambda text: lengths.append(len(text)) or read(text))
    answer = client.post("/embed_tokens", json={"sentences": ["!" * 300_000]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "sentence_too_long")
    assert lengths == [65_536]


def test_long_texts_are_tokenized_one_at_a_time(make_client, monkeypatch):
    client = make_client(limits=Limits(characters=10_000))
    elmo, running, most = client.app.state.service.elmo, [], []
    read = type(elmo).tokens

    def tokens(self, text):
        running.append(text)
        most.append(len(running))
        time.sleep(0.05)
        running.pop()
        return read(self, text)

    monkeypatch.setattr(type(elmo), "tokens", tokens)
    body = {"input": "bank " * 1000}
    askers = [
        threading.Thread(target=client.post, args=["/v1/embeddings"], kwargs={"json": body})
        for _ in range(4)
    ]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert most == [1] * 4


def test_memory_is_given_back_and_small_requests_need_none():
    memory = Memory(1000)
    with memory.request() as large, memory.request() as other, memory.request() as small:
        large.add(FREE_BYTES + 1500)  # alone it gets what it wants
        with pytest.raises(ApiError) as found:
            other.add(FREE_BYTES + 1)
        assert found.value.status == 429
        assert found.value.headers["retry-after"] == "5"
        small.add(FREE_BYTES)
        assert memory.used == 1500
        large.add(100)  # nor do the others hold any
    assert memory.used == 0


def test_large_requests_at_once_are_429_and_small_ones_pass(make_client):
    client = make_client(limits=Limits(memory_bytes=2**20))
    large = {"input": "Banks lend money to companies. " * 3000}
    assert client.post("/v1/embeddings", json=large).status_code == 200
    with client.app.state.memory.request() as other:
        other.add(FREE_BYTES + 2**20)
        answer = client.post("/v1/embeddings", json=large)
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "server_busy")
        assert answer.headers["retry-after"] == "5"
        assert client.post("/v1/embeddings", json={"input": "bank"}).status_code == 200
    assert client.app.state.memory.used == 0


def test_an_error_does_not_send_the_body_back(client):
    where = {"k" * 100_000: {"~": 1}, "a": ["x" * 100_000 + "\0"]}
    answer = client.post("/search", json={"query": "a", "where": where})
    assert answer.status_code == 422
    assert len(answer.content) < 2000
