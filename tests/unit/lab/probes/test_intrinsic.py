"""How contextual a layer is: measures on vectors whose answer is known, and on a model."""

import numpy as np
import pytest

from relmo.errors import ConfigError, TextError
from relmo.lab.probes.intrinsic import explained_variance, mean_cosine, measure_layers, rows_by_word
from relmo.lab.probes.run import run_probe, score_table
from relmo.runtime.pooling import normalize
from relmo.training.run import read_record


def test_vectors_have_length_one_and_zeros_stay():
    found = normalize(np.array([[3.0, 4.0], [0.0, 0.0]]))
    np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0]], atol=1e-6)


def test_mean_cosine_is_that_of_all_pairs():
    rows = normalize(np.random.default_rng(0).normal(size=(6, 4)))
    pairs = [rows[i] @ rows[j] for i in range(6) for j in range(6) if i != j]
    assert mean_cosine(rows) == pytest.approx(np.mean(pairs), abs=1e-6)
    assert mean_cosine(np.tile(rows[:1], (5, 1))) == pytest.approx(1, abs=1e-6)


def test_one_direction_explains_all_of_equal_vectors_and_a_part_of_others():
    row = np.array([[1.0, 2.0, 2.0]])
    assert explained_variance(np.repeat(row, 4, 0)) == pytest.approx(1)
    assert explained_variance(np.eye(4)) == pytest.approx(0.25)


def test_occurrences_are_one_per_sentence_and_enough_of_them():
    sentences = [["a", "b", "a"], *[["a", "c"]] * 4]
    (found,) = rows_by_word(sentences, np.random.default_rng(0))
    assert sorted(found) == [0, 3, 5, 7, 9]


def test_the_token_layer_knows_no_context(tiny):
    rng = np.random.default_rng(0)
    sentences = [[str(w) for w in rng.choice(list("abcdefgh"), 6)] for _ in range(40)]
    found = measure_layers(tiny, sentences)
    assert found["self_similarity_layer_0"] == pytest.approx(1, abs=1e-3)
    assert found["explained_variance_layer_0"] == pytest.approx(1, abs=1e-3)
    for layer in (1, 2):
        assert found[f"self_similarity_layer_{layer}"] < 0.999
        assert found[f"explained_variance_layer_{layer}"] < 0.999
        assert -1 <= found[f"anisotropy_layer_{layer}"] <= 1
        assert -1 <= found[f"intra_sentence_layer_{layer}"] <= 1
    assert found["words"] == 8
    assert found["tokens"] == 240
    assert measure_layers(tiny, sentences) == found


def test_too_little_text_is_refused(tiny):
    with pytest.raises(TextError, match="no word occurs in 5 or more sentences"):
        measure_layers(tiny, [["a", "b"]])


def test_a_folder_without_text_is_named(tiny, tmp_path):
    (tmp_path / "text.md").write_text("a b c")
    with pytest.raises(ConfigError, match=r"no \.txt file here or below"):
        run_probe("intrinsic", tiny, tmp_path)


def test_a_folder_of_text_is_measured_and_recorded(tiny, tmp_path):
    rng = np.random.default_rng(1)
    lines = [" ".join(rng.choice(list("abcd"), 5)) + " ." for _ in range(30)]
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "one.txt").write_text("\n\n".join(lines), encoding="utf-8")
    results = run_probe("intrinsic", tiny, tmp_path / "text", output=tmp_path / "run")
    record = read_record(tmp_path / "run" / "run.json")
    assert record["task"] == "probe-intrinsic"
    assert record["results"] == results
    assert record["data"]["text"]["words"] == 5
    assert list(record["data"]["files"]) == ["one.txt"]
    table = score_table(results)
    assert [str(column.header) for column in table.columns][:2] == ["reading", "self_similarity"]
    assert table.row_count == 3


def test_static_vectors_are_not_asked(tiny, tmp_path):
    (tmp_path / "v.txt").write_text("a 1 2\n")
    with pytest.raises(ConfigError, match="static vectors have no context"):
        run_probe("intrinsic", tiny, tmp_path, vectors=tmp_path / "v.txt")
