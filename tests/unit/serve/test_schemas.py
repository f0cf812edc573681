"""No body, however odd, gives a server error: fuzzed bytes, and schemathesis on the OpenAPI."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relmo.search import Document, IndexSettings, SemanticIndex
from tests.support.serving import EXTRA, live

pytest.importorskip("fastapi", reason=EXTRA)
from relmo.serve.limits import Limits

ROUTES = ["/v1/embeddings", "/embed_tokens", "/substitutes", "/surprisal", "/senses", "/change",
          "/search", "/predict/ner", "/predict/squad"]  # fmt: skip
FIELDS = ["input", "model", "encoding_format", "dimensions", "user", "sentences", "layers",
          "sentence", "position", "k", "query", "where", "documents", "word", "text", "before",
          "after", "align", "inputs", "question"]  # fmt: skip
ODD = [
    b"", b"null", b"[]", b"{}", b"{", b"[" * 5000, b'{"a":' * 5000, b"\xff\xfe", b"\x00",
    b'{"input": NaN}', b'{"input": 1e999}', b'{"position": ' + b"9" * 5000 + b"}",
    b'{"input": "\\ud800"}', b'{"sentences": ["\\udfff"]}', b'{"query": "\\ud800"}',
    b'{"query": "a", "where": {"a": {"~": 1}}}', b'{"query": "a", "where": []}',
    b'{"query": "a", "where": {"a": "\\u0000"}}', b'{"query": "a", "where": {"\\ud800": [[1]]}}',
    b'{"query": "a", "where": {"a": ' + b"9" * 400 + b"}}",
    b'{"\\ud800": 1}', b'{"input": "a", "input": [1]}', b'{"input": "\\u0000"}',
    b'{"sentence": ["a"], "position": 1e3}', b'{"sentences": [["a"], "b", [""]], "layers": [0]}',
    b'{"inputs": ["\\ud800", ""]}', b'{"inputs": [{"question": "", "text": "\\ud800"}]}',
    b'{"inputs": [{"question": "a", "text": "\\u0000 \\uffff"}]}', b'{"inputs": [{"\\ud800": 1}]}',
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


@pytest.fixture
def client(make_client, tasks):
    return make_client(tasks=tasks)


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


def test_schemathesis_finds_no_server_error(make_app, tasks):
    schemathesis = pytest.importorskip("schemathesis", reason="pip install schemathesis")
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [not_a_server_error, content_type_conformance, response_schema_conformance,
              status_code_conformance]  # fmt: skip
    count, asked = 0, set()
    with live(make_app(tasks=tasks)) as url:
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
            asked.add(operation.path)
    assert count > 20
    assert asked >= {"/tasks", "/predict/ner", "/predict/squad"}


# ── the schema and the server agree ─────────────────────────────────────────────────────────────

SMALL = {"texts": 3, "characters": 40, "query_characters": 20, "sentence_tokens": 8, "results": 5,
         "scored_tokens": 8}  # fmt: skip
GOOD = {
    "/v1/embeddings": {"input": "the bank"},
    "/embed_tokens": {"sentences": ["the bank"]},
    "/substitutes": {"sentence": "the bank", "position": 0},
    "/surprisal": {"sentence": "the bank"},
    "/senses": {"word": "bank", "text": "the bank"},
    "/change": {"word": "a", "before": "a a a a a", "after": "b a a a a a"},
    "/search": {"query": "the bank"},
    "/word_map": {"word": "bank", "sentences": ["the bank"]},
    "/predict/ner": {"inputs": ["the bank"]},
    "/predict/squad": {"inputs": [{"question": "who ?", "text": "the bank"}]},
}
JSON_TYPES = [None, True, 0, 1, 1.0, 2.5, -1, "", "a", "1", [], ["a"], {}, {"a": 1}]
SENTENCE_VALUES = ["a b", " ", "naïve café", "a" * 40, "a" * 41, ["a b"], ["a", ""], ["<S>", "é"],
                   ["a"] * 8, ["a"] * 9, [1]]  # fmt: skip
TEXT_VALUES = ["", " \n", "a. B.", "naïve 😀", "e\u0301", "\x1f\0", "a" * 35, "a" * 41, 1, None]
POOL = {
    "input": [" ", "\x1f\u2003", "\u200b", "a" * 41, ["a", "b"], ["a", ""], ["a", " "], ["a"] * 3,
              ["a"] * 4, [1], [["a"]]],
    "model": ["tiny", "ada"],
    "encoding_format": ["float", "base64", "hex"],
    "dimensions": [16, 16.0, 4, "16"],
    "user": ["u"],
    "sentences": [["bank"], ["bank", ["bank"]], *([each, "bank"] for each in SENTENCE_VALUES),
                  ["bank"] * 3, ["bank"] * 4, [[]], [{}]],
    "layers": ["all", "top", "last", 2, 2.0, 3, [0, 2], [0, 0], [0.0], [3], ["all"], [True]],
    "sentence": [*SENTENCE_VALUES, "bank", ["the", "bank"]],
    "position": [10**6, 10**6 + 1, "0"],
    "k": [5, 5.0, 6, 999_999, "5"],
    "query": ["a" * 20, "a" * 21, " ", "\x1f"],
    "by": ["hybrid", "vectors", "words", "bm25"],
    "hybrid": [False, "true"],
    "where": [{"a": [1, "x", None]}, {"a": [[1]]}, {"a": {">=": 1, "<": "x"}}, {"a": {"~": 1}},
              {"a": {"<": True}}, {"a": {"!=": None}}, {"a": 2**64}, {"a": 2**62}, {"a": 1e300},
              {"a": -0.5}, {"a": "\0"}, {"": 1}, {'"': 1}, {"a": [1] * 100}, {"a": [1] * 101},
              {str(i): 1 for i in range(16)}, {str(i): 1 for i in range(17)}, {"é\\\t": 1}],
    "documents": [False, "false"],
    "copies": [True, "true"],
    "explain": [True, "true"],
    "word": [" ", "bank", "a" * 41],
    "text": [" ", "\n", "bank", "Bank", "b", "the bank\r\n", "BANK bank", "a bank .\n\nb",
             "a" * 40, "a" * 41],
    "before": [" ", "a a a a a a", "b\n\na a a a a", "a" * 41],
    "after": ["\x1f", "\u200b", "A a A a A a", "a" * 40],
    "align": [False, "true"],
    "layer": [2, 2.0, 3],
    "inputs": [*([each] for each in TEXT_VALUES), *([{"text": each}] for each in TEXT_VALUES),
               *([{"text": each, "question": "b ?"}] for each in TEXT_VALUES),
               *([{"text": "b", "question": each}] for each in TEXT_VALUES),
               ["a", {"text": "b"}], ["a"] * 3, ["a"] * 4, [["a"]], [{}], [{"txt": "a"}],
               [{"text": "a", "question": "b", "k": 1}], [{"question": "a"}],
               [{"question": "a", "text": "b"}] * 3, [{"question": "a", "text": "b"}] * 4],
    "unknown": [1],
}  # fmt: skip
MEANING = {"no_such_position", "word_not_found", "too_few_places", "too_many_characters"}
"""What no schema can say: a position within the sentence, a word that occurs, text in all."""


@pytest.fixture
def agreement(make_client, speaking, tasks, tiny, tmp_path):
    """Sends a body; fails unless the server's verdict is the schema's."""
    jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="pip install schemathesis")
    index = SemanticIndex.build(
        tmp_path / "index.relmo", [Document("d", "file", "The bank.", meta={"a": 1})],
        settings=IndexSettings(language="none", weighting="corpus"), elmo=tiny,
    )  # fmt: skip
    client = make_client(speaking, index=index, tasks=tasks, limits=Limits(**SMALL))
    described = client.get("/openapi.json").json()
    validators = {}
    for path in GOOD:
        content = described["paths"][path]["post"]["requestBody"]["content"]
        schema = {**content["application/json"]["schema"], "components": described["components"]}
        validators[path] = jsonschema_rs.validator_for(schema)

    def check(path: str, body: object) -> bool:
        is_valid = validators[path].is_valid(body)
        answer = client.post(path, json=body)
        said = (path, body, answer.text[:300])
        if is_valid:
            assert answer.status_code == 200 or answer.json()["error"]["code"] in MEANING, said
        elif answer.status_code == 404:
            assert answer.json()["error"]["code"] == "model_not_found", said
        else:
            assert answer.status_code == (400 if path.startswith("/v1") else 422), said
        return is_valid

    yield check
    index.close()


@pytest.mark.parametrize("path", GOOD)
def test_each_field_is_accepted_exactly_where_the_schema_says_so(agreement, path):
    accepted = {True: 0, False: 0}
    for field, values in POOL.items():
        for value in [*values, *JSON_TYPES]:
            accepted[agreement(path, {**GOOD[path], field: value})] += 1
    for field in GOOD[path]:
        assert not agreement(path, {name: v for name, v in GOOD[path].items() if name != field})
    assert agreement(path, GOOD[path])
    assert not agreement(path, [])
    assert min(accepted.values()) > 10


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=QUIET)
@given(data=st.data(), path=st.sampled_from(list(GOOD)))
def test_bodies_of_several_odd_fields_are_judged_as_the_schema_judges(agreement, data, path):
    fields = data.draw(st.lists(st.sampled_from(list(POOL)), max_size=3, unique=True))
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    body = dict(GOOD[path])
    for field in fields:
        body[field] = data.draw(st.sampled_from(POOL[field]) | texts | st.lists(texts, max_size=3))
    agreement(path, body)


def test_bounds_in_the_schema_are_those_of_the_server(make_client):
    described = make_client(limits=Limits(results=7, texts=2)).get("/openapi.json").json()
    bodies = described["components"]["schemas"]
    assert bodies["SearchBody"]["properties"]["k"]["maximum"] == 7
    assert bodies["TokensBody"]["properties"]["sentences"]["maxItems"] == 2
    assert '"x-' not in json.dumps(described)
