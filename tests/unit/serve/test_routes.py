"""Every route over HTTP: OpenAI's API, with its official client too, and relmo's own."""

import base64
import io
import json

import numpy as np
import pytest

from tests.support.serving import live

pytest.importorskip("fastapi", reason="pip install 'relmo[serve]'")
from relmo.search import Hit
from relmo.senses.change import find_changes
from relmo.senses.senses import find_senses
from relmo.serve.access import Access
from relmo.serve.limits import Limits

JSON = {"content-type": "application/json"}
TEXTS = ["The bank raised rates.", "We sat on the bank. It was late.", "naïve 東京 🙂"]
SENTENCES = ["The bank raised rates.", ["We", "sat"], "", "naïve 東京 🙂"]


def text_vectors(answer) -> np.ndarray:
    assert answer.status_code == 200, answer.text
    return np.array([each["embedding"] for each in answer.json()["data"]], dtype=np.float32)


def test_vectors_are_those_of_encode(client, tiny):
    answer = client.post("/v1/embeddings", json={"input": TEXTS, "model": "tiny"})
    wanted = tiny.encode(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(text_vectors(answer), wanted, atol=1e-6)
    found = answer.json()
    assert [each["index"] for each in found["data"]] == [0, 1, 2]
    assert (found["object"], found["model"]) == ("list", "tiny")
    words = sum(len(tiny.tokens(text)) for text in TEXTS)
    assert found["usage"] == {"prompt_tokens": words, "total_tokens": words}


def test_one_string_is_one_vector(client, tiny):
    answer = client.post("/v1/embeddings", json={"input": TEXTS[0]})
    wanted = tiny.encode(TEXTS[:1], normalize_embeddings=True)
    np.testing.assert_allclose(text_vectors(answer), wanted, atol=1e-6)


def test_a_long_text_of_many_sentences_is_one_mean(client, tiny):
    text = " ".join(f"The {'very ' * (i % 7)}long story, part {i}." for i in range(300))
    answer = client.post("/v1/embeddings", json={"input": [text, "b"]})
    wanted = tiny.encode([text, "b"], normalize_embeddings=True)
    # encode adds up thousands of words in float32, the server in float64
    np.testing.assert_allclose(text_vectors(answer), wanted, atol=1e-5)


def test_base64_holds_the_same_numbers(client):
    floats = text_vectors(client.post("/v1/embeddings", json={"input": TEXTS}))
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
        ({"input": ["a", 5]}, 400, "input", "expected a string or a list of strings"),
        ({"input": ""}, 400, "input", "empty"),
        ({"input": []}, 400, "input", "empty"),
        ({"input": ["a", ""]}, 400, "input", "text 1 is empty"),
        ({"input": ["a", " \n"]}, 400, "input", "text 1 contains no words"),
        ({"input": "a\ud800"}, 400, "input", "surrogate"),
        ({"input": None}, 400, "input", "expected a string or a list of strings"),
        ({}, 400, "input", "required"),
        ({"input": "a", "dimensions": 4}, 400, "dimensions", "16 numbers"),
        ({"input": "a", "encoding_format": "hex"}, 400, "encoding_format", "base64"),
        ({"input": "a", "inputs": 1}, 400, "inputs", "not permitted"),
        ({"input": "a", "model": "ada"}, 404, "model", "has 'tiny'"),
    ],
)
def test_what_is_refused_is_said_in_openai_shape(client, body, status, param, said):
    answer = client.post("/v1/embeddings", content=json.dumps(body), headers=JSON)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert said in error["message"]
    assert error["param"] == param


def test_the_models_own_width_is_no_shortening(client):
    assert client.post("/v1/embeddings", json={"input": "a", "dimensions": 16}).status_code == 200


def test_the_model_is_listed(client):
    (model,) = client.get("/v1/models").json()["data"]
    assert (model["id"], model["object"]) == ("tiny", "model")
    assert client.get("/v1/models/tiny").json() == model
    assert client.get("/v1/models/other").status_code == 404


def test_the_official_client_works_unchanged(make_app, tiny):
    openai = pytest.importorskip("openai", reason="pip install openai")
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


def token_vectors(answer) -> list[np.ndarray]:
    assert answer.status_code == 200, answer.text
    return [np.array(s["vectors"], np.float32) for s in answer.json()["sentences"]]


def test_all_layers_of_every_token(client, tiny):
    answer = client.post("/embed_tokens", json={"sentences": SENTENCES})
    for found, wanted in zip(token_vectors(answer), tiny.embed(SENTENCES), strict=True):
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
    (found,) = token_vectors(answer)
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
        ({"sentences": [["a b"]]}, "token 0 of sentence 0 contains whitespace"),
        ({"sentences": ["a"], "layers": 3}, "choose a number from 0 to 2"),
        ({"sentences": ["a"], "layers": -1}, "choose a number from 0 to 2"),
        ({"sentences": ["a"], "layers": [1, 1]}, "twice"),
        ({"sentences": ["a"], "layers": []}, "a layer number"),
        ({"sentences": ["a"], "layers": True}, "a layer number"),
        ({"sentences": ["a"], "layers": "last"}, "expected 'all', 'mean', 'top', 'bottom'"),
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
    for path, more in (("/substitutes", {"position": 0}), ("/surprisal", {})):
        answer = client.post(path, json={"sentence": "a b", **more})
        assert answer.status_code == 404
        assert "softmax" in answer.json()["error"]["message"]
    assert not client.get("/ready").json()["has_substitutes"]


class ToyIndex:
    """Stands for an index: echoes the query."""

    def search(self, query, k, *, by, **others):
        words = f"{query} {by} "
        return [Hit("d", "file", 1, 0, 1, 1.0 - i, f"{words}{i}", {}) for i in range(k)]


def test_search_asks_the_index(make_client):
    client = make_client(index=ToyIndex())
    found = client.post("/search", json={"query": "river bank", "k": 2}).json()
    assert [hit["text"] for hit in found["hits"]] == ["river bank hybrid 0", "river bank hybrid 1"]
    asked = {"hybrid": {"hybrid": True}, "vectors": {"hybrid": False}, "words": {"by": "words"}}
    for ranking, field in asked.items():
        found = client.post("/search", json={"query": "bank", "k": 1, **field}).json()
        assert found["hits"][0]["text"] == f"bank {ranking} 0"
    assert client.get("/ready").json()["has_index"]


def test_a_ranking_under_both_names_is_refused(make_client):
    body = {"query": "bank", "by": "words", "hybrid": True}
    answer = make_client(index=ToyIndex()).post("/search", json=body)
    assert answer.status_code == 422
    assert "give by or hybrid, not both" in answer.json()["error"]["message"]


@pytest.mark.parametrize("body", [{"query": ""}, {"query": " "}, {"query": "a", "k": 0}, {}])
def test_a_query_without_words_is_refused(make_client, body):
    assert make_client(index=ToyIndex()).post("/search", json=body).status_code == 422


def test_without_an_index_search_is_not_found(client):
    answer = client.post("/search", json={"query": "bank"})
    assert answer.status_code == 404
    assert "--index" in answer.json()["error"]["message"]


def test_surprisal_is_that_of_the_language_models(make_client, speaking):
    words = ["the", "bank", "raised", "rents"]
    answer = make_client(speaking).post("/surprisal", json={"sentence": words})
    assert answer.status_code == 200, answer.text
    found = answer.json()["words"]
    (wanted,) = speaking.lm.surprisal([words])
    assert [each["token"] for each in found] == words
    assert [each["known"] for each in found] == [True, True, True, False]
    for name in ("surprisal", "surprisal_backward", "surprisal_both", "entropy"):
        numbers = [getattr(row, name) for row in wanted]
        np.testing.assert_allclose([each[name] for each in found], numbers, rtol=1e-6)


def test_surprisal_of_no_words_is_empty_and_of_too_many_refused(make_client, speaking):
    client = make_client(speaking, limits=Limits(scored_tokens=3))
    assert client.post("/surprisal", json={"sentence": " "}).json() == {"words": []}
    for sentence in ("a b c d", ["a"] * 4):
        error = client.post("/surprisal", json={"sentence": sentence}).json()["error"]
        assert error["message"] == "4 words in a sentence exceed the limit of 3; split it"


def test_an_error_about_a_sentence_names_its_field(make_client, speaking):
    client = make_client(speaking)
    for sentence, message in (("", "empty"), ([], "empty"), (["a", "b c"], "token 1 of the sent")):
        error = client.post("/surprisal", json={"sentence": sentence}).json()["error"]
        assert error["param"] == "sentence"
        assert message in error["message"]
    body = {"sentence": ["a b"], "position": 0}
    assert client.post("/substitutes", json=body).json()["error"]["param"] == "sentence"


BEFORE = [f"We sat on the {word} bank of a river ." for word in ("muddy", "wet", "steep", "green")]
AFTER = [f"The {word} bank raised its rates ." for word in ("old", "new", "rich", "poor")]
LINES = [f"{line[:-1]}{word} ." for line in (*BEFORE, *AFTER) for word in ("here", "there", "now")]


def test_senses_are_those_of_the_command(make_client, speaking, tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(LINES))
    wanted = find_senses(speaking, "bank", [tmp_path / "text.txt"])
    answer = make_client(speaking).post("/senses", json={"word": " Bank", "text": "\n".join(LINES)})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["places"] == 24
    assert "note" not in found
    for sense, other in zip(found["senses"], wanted.senses, strict=True):
        assert sense["share"] == pytest.approx(other.share)
        assert (sense["places"], sense["substitutes"]) == (other.places, other.substitutes)
        shown = ["{left}[{word}]{right}".format(**example) for example in sense["examples"]]
        assert shown == [str(example) for example in other.examples]
    assert [point["sense"] for point in found["points"]] == (1 + wanted.labels).tolist()
    assert np.std([[point["x"], point["y"]] for point in found["points"]], axis=0).min() > 0


def test_few_places_are_said_and_none_is_an_error(client):
    found = client.post("/senses", json={"word": "bank", "text": "A bank.\r\nThe bank ."}).json()
    assert (found["places"], len(found["senses"])) == (2, 1)
    assert found["senses"][0]["substitutes"] == []  # without a softmax
    assert found["note"] == "2 places say little about the number of senses; give more text"
    answer = client.post("/senses", json={"word": "river", "text": "A bank."})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "word_not_found")


def test_change_is_that_of_the_command(make_client, speaking, tmp_path):
    texts = {"before": LINES[:12] + LINES[-2:], "after": LINES[12:]}
    for name, lines in texts.items():  # each line is a passage, as none is blank
        (tmp_path / name).write_text("\n\n".join(lines))
    paths = [[tmp_path / name] for name in texts]
    (wanted,) = find_changes(speaking, ["bank"], *paths).changes
    body = {"word": "bank", **{name: "\n".join(lines) for name, lines in texts.items()}}
    answer = make_client(speaking).post("/change", json=body)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["before"], found["after"], found["senses"]) == (14, 12, wanted.senses)
    for name in ("apd", "prt", "jsd"):
        measured = getattr(wanted, name)
        assert found[name] == pytest.approx(measured._asdict(), abs=1e-6)
    assert (found["passages_before"], found["passages_after"]) == wanted.passages == (14, 12)
    assert (found["permutations"], found["seed"], "note" in found) == (1000, 0, False)
    assert [point["text"] for point in found["points"]] == ["before"] * 14 + ["after"] * 12
    same = make_client(speaking).post("/change", json={**body, "align": True}).json()
    assert same["prt"] != found["prt"]


def test_p_values_that_the_passages_do_not_allow_are_null_with_a_note(client):
    body = {"word": "a", "before": "a b a c a a a", "after": "a a\n\na a a"}
    found = client.post("/change", json=body).json()
    assert [found[name]["p"] for name in ("apd", "prt", "jsd")] == [None] * 3
    assert found["note"].startswith("no p-values: the places are in 1 passage and 2 passages")


@pytest.mark.parametrize(
    ("path", "body", "code", "said"),
    [
        ("/senses", {"word": "bank", "text": " \n"}, "no_words", "contains no words"),
        ("/senses", {"word": "a", "text": "a b c\nd e f"}, "too_many_tokens", "6 words of text"),
        ("/senses", {"word": "a", "text": "a b c\nd e f"}, "too_many_tokens", "at least 6 words"),
        ("/senses", {"wrd": "a", "text": "a"}, "missing", "word: Field required; wrd: an unknown"),
        ("/senses", {"word": "a", "text": "a", "k": 3}, "extra_forbidden", "k: an unknown field"),
        ("/change", {"word": "a", "before": "a", "after": " "}, "no_words", "contains no words"),
        ("/change", {"word": "a", "before": "a a a", "after": "a a"}, "too_few_places",
         "3 and 2 times; at least 5 places in each"),
    ],
)  # fmt: skip
def test_texts_in_which_nothing_can_be_found_are_refused(make_client, path, body, code, said):
    answer = make_client(limits=Limits(sense_tokens=5)).post(path, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, code)
    assert said in answer.json()["error"]["message"]


def test_others_are_served_while_senses_are_found(make_client, monkeypatch):
    """One request for senses at a time, few wait, and the model is free in between."""
    client = make_client(limits=Limits(sense_requests=1))
    service, answers = client.app.state.service, []
    monkeypatch.setattr("relmo.senses.places.SLICE_TOKENS", 20)
    use, slices = service._use, []

    def use_between(work, cost):
        if not slices:
            asked = [("/embed_tokens", {"sentences": ["a b"]}), ("/senses", body)]
            answers.extend(client.post(path, json=each).status_code for path, each in asked)
        slices.append(cost)
        return use(work, cost)

    monkeypatch.setattr(service, "_use", use_between)
    body = {"word": "bank", "text": "\n".join(LINES)}
    assert client.post("/senses", json=body).status_code == 200
    assert answers == [200, 429]
    assert len(slices) > 10
    assert max(slices) < 40
