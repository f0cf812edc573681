"""Vectors of tokens, substitutes and search over HTTP."""

import io

import numpy as np
import pytest

SENTENCES = ["The bank raised rates.", ["We", "sat"], "", "naïve 東京 🙂"]


def vectors_of(answer) -> list[np.ndarray]:
    assert answer.status_code == 200, answer.text
    return [np.array(s["vectors"], np.float32) for s in answer.json()["sentences"]]


def test_all_layers_of_every_token(client, tiny):
    answer = client.post("/embed_tokens", json={"sentences": SENTENCES})
    for found, wanted in zip(vectors_of(answer), tiny.embed(SENTENCES), strict=True):
        np.testing.assert_allclose(found.reshape(wanted.shape), wanted, atol=1e-6)
    body = answer.json()
    assert (body["model"], body["width"], body["layers"]) == ("tiny", 16, [0, 1, 2])
    assert body["usage"]["total_tokens"] == 11


def test_tokens_come_with_their_places(client):
    first, second, *_ = client.post("/embed_tokens", json={"sentences": SENTENCES}).json()[
        "sentences"
    ]
    text = SENTENCES[0]
    assert all(text[t["start"] : t["end"]] == t["text"] for t in first["tokens"])
    assert second["tokens"][0] == {"text": "We", "start": None, "end": None}


@pytest.mark.parametrize(
    ("layers", "names"),
    [("all", [0, 1, 2]), ("top", [2]), ("mean", ["mean"]), (1, [1]), ([2, 0], [2, 0])],
)
def test_layers_are_chosen(client, tiny, layers, names):
    answer = client.post("/embed_tokens", json={"sentences": SENTENCES[:1], "layers": layers})
    (found,) = vectors_of(answer)
    every = tiny.embed(SENTENCES[:1])[0]
    wanted = [every.mean(0) if name == "mean" else every[name] for name in names]
    np.testing.assert_allclose(found, np.stack(wanted), atol=1e-6)
    assert answer.json()["layers"] == names


@pytest.mark.parametrize("kind", ["application/x-npy", "application/octet-stream, */*"])
def test_npy_is_given_to_those_who_accept_it(client, tiny, kind):
    answer = client.post(
        "/embed_tokens", json={"sentences": SENTENCES, "layers": [0, 2]}, headers={"accept": kind}
    )
    assert answer.headers["content-type"] == "application/x-npy"
    found = np.load(io.BytesIO(answer.content), allow_pickle=False)
    counts = [int(n) for n in answer.headers["x-relmo-tokens"].split(",")]
    assert (counts, found.shape, found.dtype) == ([5, 2, 0, 4], (2, 11, 16), np.float32)
    parts = np.split(found, np.cumsum(counts)[:-1], axis=1)
    for part, wanted in zip(parts, tiny.embed(SENTENCES), strict=True):
        np.testing.assert_allclose(part, wanted[[0, 2]], atol=1e-6)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"sentences": "a b"}, "sentences"),
        ({"sentences": []}, "at least 1"),
        ({"sentences": [3]}, "a string or a list of strings"),
        ({"sentences": [["a", 3]]}, "a string or a list of strings"),
        ({"sentences": [["a b"]]}, "token 0 of sentence 0 holds white space"),
        ({"sentences": ["a"], "layers": 3}, "choose 0 to 2"),
        ({"sentences": ["a"], "layers": -1}, "choose 0 to 2"),
        ({"sentences": ["a"], "layers": [1, 1]}, "twice"),
        ({"sentences": ["a"], "layers": []}, "a layer's number"),
        ({"sentences": ["a"], "layers": True}, "a layer's number"),
        ({"sentences": ["a"], "layers": "bottom"}, "choose 'all'"),
    ],
)
def test_what_cannot_be_read_is_refused(client, body, said):
    answer = client.post("/embed_tokens", json=body)
    assert answer.status_code == 422
    assert said in answer.json()["error"]["message"]


def test_substitutes_are_those_of_the_language_models(make_client, speaking):
    words = ["the", "bank"]
    client = make_client(speaking)
    answer = client.post("/substitutes", json={"sentence": words, "position": 1, "k": 3})
    assert answer.status_code == 200, answer.text
    found = [(each["word"], each["score"]) for each in answer.json()["substitutes"]]
    wanted = speaking.lm.substitutes(words, 1, 3)
    assert [word for word, _ in found] == [word for word, _ in wanted]
    np.testing.assert_allclose([s for _, s in found], [s for _, s in wanted], rtol=1e-5)
    assert client.get("/ready").json()["has_substitutes"]


@pytest.mark.parametrize("body", [{"position": 2}, {"position": -1}, {"position": 0, "k": 0}])
def test_a_place_outside_the_sentence_is_refused(make_client, speaking, body):
    answer = make_client(speaking).post("/substitutes", json={"sentence": "a b", **body})
    assert answer.status_code == 422


def test_a_model_without_softmax_says_so(client):
    answer = client.post("/substitutes", json={"sentence": "a b", "position": 0})
    assert answer.status_code == 404
    assert "softmax" in answer.json()["error"]["message"]
    assert not client.get("/ready").json()["has_substitutes"]


class Shelf:
    """An index of its own making."""

    def search(self, query, k, *, hybrid, where, documents):
        words = f"{query} {'hybrid ' if hybrid else ''}"
        return [{"document": "d", "text": f"{words}{i}", "score": 1.0 - i} for i in range(k)]


def test_search_asks_the_index(make_client):
    client = make_client(index=Shelf())
    found = client.post("/search", json={"query": "river bank", "k": 2}).json()
    assert [hit["text"] for hit in found["hits"]] == ["river bank 0", "river bank 1"]
    found = client.post("/search", json={"query": "bank", "k": 1, "hybrid": True}).json()
    assert found["hits"][0]["text"] == "bank hybrid 0"
    assert client.get("/ready").json()["has_index"]


@pytest.mark.parametrize("body", [{"query": ""}, {"query": " "}, {"query": "a", "k": 0}, {}])
def test_a_query_without_words_is_refused(make_client, body):
    assert make_client(index=Shelf()).post("/search", json=body).status_code == 422


def test_without_an_index_search_is_not_found(client):
    answer = client.post("/search", json={"query": "bank"})
    assert answer.status_code == 404
    assert "--index" in answer.json()["error"]["message"]
