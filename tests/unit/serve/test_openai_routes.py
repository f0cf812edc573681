"""POST /v1/embeddings as OpenAI's clients expect it, and the official client itself."""

import base64

import numpy as np
import pytest

from tests.support.serving import live

TEXTS = ["The bank raised rates.", "We sat on the bank. It was late.", "naïve 東京 🙂"]


def vectors_of(answer) -> np.ndarray:
    assert answer.status_code == 200, answer.text
    return np.array([each["embedding"] for each in answer.json()["data"]], dtype=np.float32)


def test_vectors_are_those_of_encode(client, tiny):
    answer = client.post("/v1/embeddings", json={"input": TEXTS, "model": "tiny"})
    wanted = tiny.encode(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(vectors_of(answer), wanted, atol=1e-6)
    found = answer.json()
    assert [each["index"] for each in found["data"]] == [0, 1, 2]
    assert (found["object"], found["model"]) == ("list", "tiny")
    words = sum(len(tiny.tokens(text)) for text in TEXTS)
    assert found["usage"] == {"prompt_tokens": words, "total_tokens": words}


def test_one_string_is_one_vector(client, tiny):
    answer = client.post("/v1/embeddings", json={"input": TEXTS[0]})
    wanted = tiny.encode(TEXTS[:1], normalize_embeddings=True)
    np.testing.assert_allclose(vectors_of(answer), wanted, atol=1e-6)


def test_a_long_text_of_many_sentences_is_one_mean(client, tiny):
    text = " ".join(f"The {'very ' * (i % 7)}long story, part {i}." for i in range(300))
    answer = client.post("/v1/embeddings", json={"input": [text, "b"]})
    wanted = tiny.encode([text, "b"], normalize_embeddings=True)
    # encode adds up thousands of words in float32, the server in float64
    np.testing.assert_allclose(vectors_of(answer), wanted, atol=1e-5)


def test_base64_holds_the_same_numbers(client):
    floats = vectors_of(client.post("/v1/embeddings", json={"input": TEXTS}))
    body = {"input": TEXTS, "encoding_format": "base64"}
    coded = client.post("/v1/embeddings", json=body).json()["data"]
    for row, each in zip(floats, coded, strict=True):
        found = np.frombuffer(base64.b64decode(each["embedding"]), "<f4")
        np.testing.assert_array_equal(found, row)


@pytest.mark.parametrize(
    ("body", "status", "param", "said"),
    [
        ({"input": [1, 2, 3]}, 400, "input", "token ids"),
        ({"input": [[1, 2], [3]]}, 400, "input", "token ids"),
        ({"input": ["a", 5]}, 400, "input", "send text"),
        ({"input": ""}, 400, "input", "empty"),
        ({"input": []}, 400, "input", "empty"),
        ({"input": ["a", ""]}, 400, "input", "text 1 is empty"),
        ({"input": ["a", " \n"]}, 400, "input", "text 1 has no words"),
        ({"input": "a\ud800"}, 400, "input", "surrogate"),
        ({"input": None}, 400, "input", "send text"),
        ({}, 400, "input", "required"),
        ({"input": "a", "dimensions": 4}, 400, "dimensions", "16 numbers"),
        ({"input": "a", "encoding_format": "hex"}, 400, "encoding_format", "base64"),
        ({"input": "a", "inputs": 1}, 400, "inputs", "not permitted"),
        ({"input": "a", "model": "ada"}, 404, "model", "has 'tiny'"),
    ],
)
def test_what_is_refused_is_said_in_openai_shape(client, body, status, param, said):
    answer = client.post("/v1/embeddings", content=ascii_json(body), headers=JSON)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert said in error["message"]
    assert error["param"] == param


JSON = {"content-type": "application/json"}


def ascii_json(body) -> bytes:
    import json

    return json.dumps(body).encode("ascii")


def test_the_models_own_width_is_no_shortening(client):
    assert client.post("/v1/embeddings", json={"input": "a", "dimensions": 16}).status_code == 200


def test_the_model_is_listed(client):
    (model,) = client.get("/v1/models").json()["data"]
    assert (model["id"], model["object"]) == ("tiny", "model")
    assert client.get("/v1/models/tiny").json() == model
    assert client.get("/v1/models/other").status_code == 404


def test_the_official_client_works_unchanged(make_app, tiny):
    openai = pytest.importorskip("openai", reason="pip install openai")
    from relmo.serve.settings import Access

    app = make_app(access=Access(api_key="right"))
    with live(app) as url:
        settings = {"base_url": f"{url}/v1", "max_retries": 0}
        with openai.OpenAI(api_key="right", **settings) as client:
            found = client.embeddings.create(model="tiny", input=TEXTS)  # asks for base64 itself
            wanted = tiny.encode(TEXTS, normalize_embeddings=True)
            vectors = np.array([each.embedding for each in found.data])
            np.testing.assert_allclose(vectors, wanted, atol=1e-6)
            floats = client.embeddings.create(model="tiny", input=TEXTS[0], encoding_format="float")
            np.testing.assert_allclose(floats.data[0].embedding, wanted[0], atol=1e-6)
            assert found.usage.prompt_tokens > 0
            assert [model.id for model in client.models.list()] == ["tiny"]
            with pytest.raises(openai.BadRequestError, match="token ids"):
                client.embeddings.create(model="tiny", input=[1, 2])
            with pytest.raises(openai.BadRequestError, match="cannot be shortened"):
                client.embeddings.create(model="tiny", input="a", dimensions=4)
            with pytest.raises(openai.NotFoundError, match="not served"):
                client.embeddings.create(model="text-embedding-3-small", input="a")
        with (
            openai.OpenAI(api_key="wrong", **settings) as client,
            pytest.raises(openai.AuthenticationError),
        ):
            client.models.list()
