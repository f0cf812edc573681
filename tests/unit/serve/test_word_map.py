"""Occurrences of a word in a plane: groups that stand apart are found, always the same."""

import tracemalloc

import numpy as np
import pytest

from relmo.serve.limits import Limits
from relmo.serve.word_map import map_words, silhouette


def groups(*counts: int, spread: float = 0.05) -> np.ndarray:
    """(N, 64) vectors in groups along different axes."""
    rng = np.random.default_rng(0)
    parts = [np.eye(64)[g] + spread * rng.normal(size=(n, 64)) for g, n in enumerate(counts)]
    return np.concatenate(parts).astype(np.float32)


@pytest.mark.parametrize("counts", [(3, 3), (5, 2), (4, 4, 4), (3, 3, 3, 3)])
def test_groups_that_stand_apart_are_found(counts):
    found = map_words(groups(*counts))
    wanted = [g for g, n in enumerate(counts) for _ in range(n)]
    assert found.clusters.tolist() == wanted


def test_what_does_not_fall_apart_is_one_cluster():
    assert set(map_words(groups(9, spread=0.5)).clusters) == {0}


@pytest.mark.parametrize("number", [1, 2])
def test_one_or_two_occurrences_have_a_map(number):
    found = map_words(groups(number))
    assert found.points.shape == (number, 2)
    assert np.isfinite(found.points).all()
    assert set(found.clusters) == {0}


def test_equal_vectors_and_zeros_have_a_map():
    for vectors in (np.ones((4, 8), np.float32), np.zeros((3, 8), np.float32)):
        found = map_words(vectors)
        assert np.isfinite(found.points).all()
        assert set(found.clusters) == {0}


def test_the_plane_is_that_of_the_largest_differences():
    vectors = groups(4, 4)
    x = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    x = x - x.mean(0)
    values = np.linalg.eigvalsh(x.T @ x)[::-1]
    found = map_words(vectors)
    np.testing.assert_allclose((found.points**2).sum(0), values[:2], rtol=1e-4)
    np.testing.assert_allclose(found.shares, values[:2] / values.sum(), rtol=1e-4)
    again = map_words(vectors)
    np.testing.assert_array_equal(found.points, again.points)


def test_a_silhouette_by_hand():
    places = np.array([0.0, 1.0, 10.0])
    distances = np.abs(places[:, None] - places[None])
    # own 1, other 10 -> 0.9; own 1, other 9 -> 8/9; alone -> 0
    assert silhouette(distances, np.array([0, 0, 1])) == pytest.approx((0.9 + 8 / 9) / 3)
    assert silhouette(distances, np.zeros(3, np.int64)) == -1


def test_a_map_of_many_takes_little_memory():
    vectors = np.random.default_rng(0).normal(size=(500, 512)).astype(np.float32)
    tracemalloc.start()
    map_words(vectors)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 64 * 2**20  # differences of all pairs at once are a gigabyte


def test_only_sentences_with_the_word_are_read(client, monkeypatch):
    batcher, seen = client.app.state.service.batcher, []
    read = batcher.embed
    monkeypatch.setattr(
        batcher, "embed", lambda words, *rest: seen.extend(words) or read(words, *rest)
    )
    body = {"word": "bank", "sentences": ["the bank", "no such word", "a bank"]}
    assert client.post("/word_map", json=body).status_code == 200
    assert seen == [["the", "bank"], ["a", "bank"]]


def test_the_route_places_every_occurrence(client):
    sentences = ["The bank raised rates.", "No such word.", "A Bank, a bank."]
    answer = client.post("/word_map", json={"word": "bank", "sentences": sentences, "layer": 1})
    assert answer.status_code == 200, answer.text
    points = answer.json()["points"]
    places = [(p["sentence"], p["position"], p["text"]) for p in points]
    assert places == [(0, 1, "bank"), (2, 1, "Bank"), (2, 4, "bank")]


def test_the_route_compares_sense_vectors(make_client, tiny):
    sentences = [["bank"], ["the", "bank", "raised"], ["a", "bank"], ["bank", "rates"]]
    wanted = [
        v[s.index("bank")] for s, v in zip(sentences, tiny.sense_vectors(sentences), strict=True)
    ]
    client = make_client(limits=Limits(batch_tokens=3))
    answer = client.post("/word_map", json={"word": "bank", "sentences": sentences, "senses": True})
    points = [(p["x"], p["y"]) for p in answer.json()["points"]]
    np.testing.assert_allclose(points, map_words(np.stack(wanted)).points, atol=1e-4)
    assert "note" not in answer.json()


@pytest.mark.filterwarnings("ignore::relmo.errors.TextWarning")  # said once, to the operator
def test_routes_note_a_script_that_the_model_does_not_know(make_client, speaking):
    client, texts = make_client(speaking), ["은행 이 금리 를", "the bank"]
    for _ in range(2):  # each request, not only the first
        tokens = client.post("/embed_tokens", json={"sentences": texts})
        found = client.post("/word_map", json={"word": "은행", "sentences": texts})
        for answer in (tokens, found):
            assert answer.json()["note"].startswith("the text is in Hangul script")
    answer = client.post("/word_map", json={"word": "bank", "sentences": texts})
    assert "note" not in answer.json()  # its sentence is not in that script


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"word": "x", "sentences": ["a b"]}, "word_not_found"),
        ({"word": "a", "sentences": ["a"], "layer": 9}, "no_such_layer"),
        ({"word": "a", "sentences": ["a"], "layer": 1, "senses": True}, "no_such_layer"),
        ({"word": "a", "sentences": ["a a"] * 251}, "too_many_occurrences"),
        ({"word": "\ud800", "sentences": ["a"]}, "string_unicode"),
        ({"word": "", "sentences": ["a"]}, "string_too_short"),
    ],
)
def test_the_route_refuses_what_it_cannot_map(client, body, code):
    import json

    headers = {"content-type": "application/json"}
    answer = client.post("/word_map", content=json.dumps(body), headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, code)


def test_the_page_comes_with_a_policy_that_lets_nothing_in_from_outside(client):
    page = client.get("/")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    scripts = ("app", "api", "elements", "heat", "map", "story", "vectors")
    for name in ("style.css", *(f"{script}.js" for script in scripts)):
        file = client.get(f"/static/{name}")
        assert file.status_code == 200
        outside = file.text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in outside
        assert "https://" not in outside
    assert client.get("/static/nothing.js").status_code == 404
    assert client.get("/static/../app.py").status_code == 404
