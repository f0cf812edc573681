"""Texts -> vectors with a trained encoder: the same as the trained model's, at any width."""

import io
import json
import random
import sys

import numpy as np
import pytest

import relmo
from relmo import Elmo
from relmo.cli.main import main
from relmo.errors import ConfigError, TextError
from relmo.tasks.encoder.data import read_text
from relmo.tasks.encoder.text_encoder import TextEncoder
from relmo.tasks.run import load_task, load_task_recipe, train_task
from tests.conftest import tiny_config
from tests.support.toy_encoder import make_encoder
from tests.support.toy_tasks import write_vectors

ODD = [
    "", " \n\t", "Mira sings. The bank!", "שלום 👩‍🚀 e\u0301", "x" * 400, "\u200b", "\x00",
    "\ud800", "A headline\n\n- one\n- two\n",
]  # fmt: skip
SHAPES = [("mix", False), ("mix", True), ("top", False), ("token", False), ("token", True)]


def made_up(rng):
    return "".join(rng.choice(["ba", "du", "ki", "lo", "me", "ra", "tof", "zin"]) for _ in "123")


def write_pairs(folder, number=60):
    """Passages of six made-up words, and three of these in another order to find them by."""
    folder.mkdir()
    rng, rows = random.Random(0), []
    for _ in range(number):
        words = [made_up(rng) for _ in range(6)]
        asked = rng.sample(words, 3)
        rows.append({"query": " ".join(asked), "positive": f"{' '.join(words)}."})
    for part in ("train", "dev"):
        (folder / f"{part}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("pairs") / "data")


@pytest.fixture(scope="module", params=SHAPES, ids=lambda shape: f"{shape[0]}-{shape[1]}")
def run(request, tmp_path_factory, data, tiny, tiny_lm):
    """(folder, ELMo, scores) of a run with a way of reading ELMo, and with word vectors or not."""
    layers, has_vectors = request.param
    home = tmp_path_factory.mktemp("run")
    elmo = tiny_lm if has_vectors else tiny
    changes = [
        f"input.layers={layers}",
        f"input.output_embeddings={str(has_vectors).lower()}",
        "input.elmo_dropout=0.0",
        "input.random_width=24",
        "model.width=16",
        "batch.size=30",
        "training.epochs=60",
        "optimizer.learning_rate=0.02",
    ]
    vectors = write_vectors(home / "vectors.txt", data, width=12) if has_vectors else None
    recipe = load_task_recipe("encoder", None, changes)
    options = {"elmo": elmo, "vectors": vectors, "device": "cpu"}
    return home / "run", elmo, train_task("encoder", recipe, data, home / "run", **options)


@pytest.fixture(scope="module")
def encoder(run):
    return relmo.load(run[0], elmo=run[1], device="cpu")


# ── the same as the trained model ───────────────────────────────────────────────────────────


def test_texts_that_belong_together_are_learned(run):
    assert run[2]["dev_mrr"] > 85


def test_it_encodes_as_the_trained_model_does(run, encoder, data):
    assert repr(encoder) == "TextEncoder('run', text -> vector)"
    rows = map(json.loads, (data / "dev.jsonl").read_text().splitlines())
    texts = [*ODD, *(row["positive"] for row in rows), "the bank " * 1500]
    task = load_task(run[0], elmo=run[1], device="cpu")
    wanted = task.vectors([read_text(text) for text in texts]).numpy()
    found = encoder.encode(texts)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=1e-5, rtol=0)


def test_neighbours_do_not_change_a_vector(encoder):
    texts = [*ODD, "the river " * 1500, "the river"]
    together = encoder.encode(texts)
    alone = np.stack([encoder.encode(text) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5, rtol=0)
    np.testing.assert_allclose(encoder.encode(texts[::-1])[::-1], alone, atol=1e-5, rtol=0)


def test_called_it_gives_the_same_numbers(encoder):
    texts = ["Mira sings. The bank!", "", "שלום"]
    found = encoder(texts)
    assert found[1] is None
    np.testing.assert_allclose([found[0], found[2]], encoder.encode(texts)[[0, 2]], atol=1e-5)
    assert encoder(texts[0]) == pytest.approx(found[0], abs=1e-6)


# ── shapes ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def small(tiny):
    """An encoder of width 8 that was not trained."""
    return TextEncoder(make_encoder(tiny, "token"), "small")


def test_a_text_gives_a_vector_and_a_list_a_matrix(small):
    assert small.width == 8
    assert small.encode("Mira").shape == (8,)
    assert small.encode(["Mira"]).shape == (1, 8)
    assert small.encode(("Mira", "the bank")).shape == (2, 8)
    assert small.encode(np.array(["Mira", "the bank"])).shape == (2, 8)
    assert small.encode([]).shape == (0, 8)
    assert small.encode([], width=3).shape == (0, 3)
    assert small.encode_read([]).shape == (0, 8)


def test_vectors_are_of_unit_length_but_of_no_words_zero(small):
    found = np.linalg.norm(small.encode(ODD), axis=1)
    np.testing.assert_allclose(found, [0, 0, *[1] * (len(ODD) - 2)], atol=1e-6)
    assert not small.encode("").any()


@pytest.mark.parametrize("width", [1, 2, 4, 7, 8])
def test_a_narrower_vector_is_the_beginning_scaled_to_unit_length(small, width):
    texts = ["Mira sings.", "the river bank"]
    whole = small.encode(texts)[:, :width]
    wanted = whole / np.linalg.norm(whole, axis=1, keepdims=True)
    np.testing.assert_allclose(small.encode(texts, width=width), wanted, atol=1e-6)
    np.testing.assert_allclose(small.encode(texts[0], width=width), wanted[0], atol=1e-5)


@pytest.mark.parametrize("width", [0, -1, 9, 2.0, "4", True])
def test_a_wrong_width_is_refused(small, width):
    with pytest.raises(ConfigError, match=r"width must be an integer from 1 to 8, got "):
        small.encode("Mira", width=width)


@pytest.mark.parametrize(
    ("texts", "what"),
    [
        ([7], "expected strings, got int as text 0"),
        (["a", None], r"row 1 \(counted from 0\) is a missing value"),
        (None, "expected a string or a list of strings, got NoneType"),
        (b"Mira", "expected a string or a list of strings, got bytes"),
    ],
)
def test_what_is_no_text_is_refused(small, texts, what):
    with pytest.raises(TextError, match=what):
        small.encode(texts)


@pytest.mark.parametrize("layers", ["mix", "token"])
def test_an_encoder_may_read_elmo_alone(tiny, layers):
    encoder = TextEncoder(make_encoder(tiny, layers, static_width=0), "bare")
    wanted = encoder.task.vectors([read_text(text) for text in ODD]).detach().numpy()
    np.testing.assert_allclose(encoder.encode(ODD), wanted, atol=1e-5)


def test_texts_are_read_some_at_a_time(small, monkeypatch):
    texts = [f"Mira {i} sings" for i in range(50)]
    wanted = small.encode(texts)
    monkeypatch.setattr("relmo.tasks.encoder.text_encoder.WINDOW_WORDS", 7)
    np.testing.assert_allclose(small.encode(texts), wanted, atol=1e-6)


def test_progress_can_be_shown(small, monkeypatch):
    seen = []

    def progress(items, *how):
        seen.append(how)
        return items

    monkeypatch.setattr("relmo.tasks.encoder.text_encoder.progress", progress)
    small.encode(["Mira", "the bank"], show_progress_bar=True)
    small.encode("Mira")
    assert seen == [(2, "texts", True), (1, "texts", False)]


def test_a_fine_tuned_model_encodes_with_its_own_weights(tmp_path, data):
    elmo = Elmo.untrained(tiny_config(), seed=1)
    found = {}
    for layers in ("mix", "token"):
        changes = [
            f"input.layers={layers}", "input.output_embeddings=false", "input.finetune=true",
            "training.steps=2", "model.width=8", "optimizer.bilm_rate=1.0",
        ]  # fmt: skip
        recipe = load_task_recipe("encoder", None, changes)
        folder = tmp_path / layers
        train_task("encoder", recipe, data, folder, elmo=elmo, device="cpu")
        encoder = relmo.load(folder, elmo=elmo, device="cpu")
        texts = ["Mira sings. The bank!", "שלום"]
        wanted = encoder.task.vectors([read_text(text) for text in texts]).numpy()
        found = encoder.encode(texts)
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        assert encoder.elmo.fingerprint() != elmo.fingerprint()


# ── commands ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def saved(tmp_path_factory, data, tiny):
    """A run that finds its ELMo by its folder."""
    home = tmp_path_factory.mktemp("saved")
    tiny.save_pretrained(home / "elmo")
    changes = ["input.layers=token", "input.output_embeddings=false", "model.width=4",
               "training.steps=1"]  # fmt: skip
    recipe = load_task_recipe("encoder", None, changes)
    train_task("encoder", recipe, data, home / "run", elmo=home / "elmo", device="cpu")
    return home / "run"


def command(monkeypatch, capsys, *args, stdin=""):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_:
        main([str(arg) for arg in args])
    assert not exit_.value.code
    return capsys.readouterr().out


def test_predict_prints_a_vector_per_line(saved, monkeypatch, capsys):
    texts = ["Mira sings.", "", "שלום 😀"]
    wanted = relmo.load(saved, device="cpu").encode(texts)
    stdin = "".join(f"{text}\n" for text in texts)
    lines = command(monkeypatch, capsys, "predict", saved, "-", stdin=stdin).splitlines()
    assert lines[1] == ""
    numbers = [list(map(float, lines[row].split(" "))) for row in (0, 2)]
    np.testing.assert_allclose(numbers, wanted[[0, 2]], atol=1e-5)
    shown = command(monkeypatch, capsys, "predict", saved, "-", "--json", stdin=stdin)
    first, last = map(json.loads, shown.splitlines())
    assert (first["line"], first["text"], last["line"]) == (1, "Mira sings.", 3)
    np.testing.assert_allclose([first["vector"], last["vector"]], wanted[[0, 2]], atol=1e-6)
    assert max(len(str(abs(number))) for number in first["vector"]) <= 12


def test_evaluate_and_info_tell_of_a_search(saved, data, monkeypatch, capsys):
    file = data / "dev.jsonl"
    shown = command(monkeypatch, capsys, "evaluate", saved, "--data", file, "--errors", "3")
    assert "MRR" in shown
    found = json.loads(
        command(monkeypatch, capsys, "evaluate", saved, "--data", file, "--errors", "3", "--json")
    )
    wrong = round(60 * (1 - found["accuracy"] / 100))
    assert found["errors"]["count"] == wrong > 3
    assert len(found["errors"]["examples"]) == 3
    shown = command(monkeypatch, capsys, "info", saved)
    assert "encoder" in shown
    assert "dev MRR" in shown
    assert "temperature" not in shown
