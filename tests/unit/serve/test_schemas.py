"""No body, however odd, gives a server error: fuzzed bytes, and schemathesis on the OpenAPI."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.serving import live

ROUTES = ["/v1/embeddings", "/embed_tokens", "/substitutes", "/search"]
FIELDS = ["input", "model", "encoding_format", "dimensions", "user", "sentences", "layers",
          "sentence", "position", "k", "query", "where", "documents"]  # fmt: skip
ODD = [
    b"", b"null", b"[]", b"{}", b"{", b"[" * 5000, b'{"a":' * 5000, b"\xff\xfe", b"\x00",
    b'{"input": NaN}', b'{"input": 1e999}', b'{"position": ' + b"9" * 5000 + b"}",
    b'{"input": "\\ud800"}', b'{"sentences": ["\\udfff"]}', b'{"query": "\\ud800"}',
    b'{"query": "a", "where": {"a": {"~": 1}}}', b'{"query": "a", "where": []}',
    b'{"query": "a", "where": {"a": "\\u0000"}}', b'{"query": "a", "where": {"\\ud800": [[1]]}}',
    b'{"query": "a", "where": {"a": ' + b"9" * 400 + b"}}",
    b'{"\\ud800": 1}', b'{"input": "a", "input": [1]}', b'{"input": "\\u0000"}',
    b'{"sentence": ["a"], "position": 1e3}', b'{"sentences": [["a"], "b", [""]], "layers": [0]}',
    b'{"sentence": "", "position": 0}', b'{"sentences": [[]]}', b'{"sentence": [], "position": 0}',
]  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from(["all", "top", "a b", "tiny", "base64"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
bodies = st.dictionaries(st.sampled_from(FIELDS), values, max_size=4)
QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def check(client, path: str, body: bytes) -> None:
    answer = client.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code < 500, (path, body, answer.text)
    if answer.status_code >= 400:
        assert answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ROUTES)
def test_odd_bytes(client, path):
    for body in ODD:
        check(client, path, body)
    answer = client.post(path, content=b"a=1", headers={"content-type": "text/plain"})
    assert 400 <= answer.status_code < 500
    assert "Content-Type: application/json" in answer.json()["error"]["message"]


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=QUIET)
@given(body=bodies, path=st.sampled_from(ROUTES))
def test_fuzzed_bodies(client, body, path):
    check(client, path, json.dumps(body).encode())


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=QUIET)
@given(body=st.binary(max_size=60), path=st.sampled_from(ROUTES))
def test_fuzzed_bytes(client, body, path):
    check(client, path, body)


def test_schemathesis_finds_no_server_error(make_app):
    schemathesis = pytest.importorskip("schemathesis", reason="pip install schemathesis")
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [not_a_server_error, content_type_conformance, response_schema_conformance,
              status_code_conformance]  # fmt: skip
    count = 0
    with live(make_app()) as url:
        schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
        for found in schema.get_all_operations():
            operation = found.ok()

            @settings(max_examples=12, deadline=None, derandomize=True, database=None,
                      suppress_health_check=list(HealthCheck))  # fmt: skip
            @given(case=operation.as_strategy())
            def ask(case):
                nonlocal count
                count += 1
                case.call_and_validate(checks=checks)

            ask()
    assert count > 20
