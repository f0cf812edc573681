"""The threshold of word-in-context, its files, its scores."""

import numpy as np
import pytest

from relmo.errors import ConfigError, DataError
from relmo.lab.probes.inputs import ProbeInputs
from relmo.lab.probes.wic import (
    best_threshold,
    cosine,
    probe_wic,
    read_pairs,
    score_pairs,
    span_senses,
)
from relmo.tasks.data_files import PARTS
from tests.support.toy_probes import write_wic

ROW = "bank\tN\t1-0\tthe bank\tbank .\n"


@pytest.mark.parametrize(
    ("values", "truths", "threshold"),
    [
        ([0.1, 0.2, 0.6, 0.8], [False, False, True, True], 0.4),
        ([0.8, 0.1, 0.6, 0.2], [True, False, False, False], 0.7),
        ([0.1, 0.2], [True, True], -0.9),
        ([0.1, 0.2], [False, False], 1.2),
        ([0.5, 0.5, 0.5, 0.9], [True, False, False, True], 0.7),
        ([0.3], [True], -0.7),
    ],
)
def test_the_threshold_parts_most_values_rightly(values, truths, threshold):
    found = best_threshold(np.array(values), np.array(truths))
    assert found == pytest.approx(threshold)


def test_cosine_of_equal_opposed_and_zero_vectors():
    one = np.array([[3, 4], [1, 0], [1, 0], [0, 0]], np.float32)
    other = np.array([[6, 8], [-2, 0], [0, 5], [1, 1]], np.float32)
    assert cosine(one, other).tolist() == [1, -1, 0, 0]


def test_pairs_are_read_with_their_answers(tmp_path):
    folder = write_wic(tmp_path) / "dev"
    (sentences, spans), is_same = read_pairs(folder / "dev.data.txt", folder / "dev.gold.txt")
    assert is_same.tolist() == [True, False, True, False]
    assert sentences[0] == ("the", "bank", "of", "a", "river")
    assert sentences[3] == ("the", "bank", "lends", ".")
    assert spans == [[(1, 2)]] * 8


@pytest.mark.parametrize(
    ("data", "gold", "message"),
    [
        (
            ROW * 2 + "bank\tN\t1-0\tthe bank\n",
            "T\n" * 3,
            "x.data.txt, line 3: expected 5 tab-sep",
        ),
        (
            ROW.replace("1-0", "1"),
            "T\n",
            "x.data.txt, line 1: expected two positions",
        ),
        (ROW.replace("1-0", "1-2"), "T\n", "x.data.txt, line 1: position 1-2 is past the end"),
        (ROW, "yes\n", "x.gold.txt, line 1: expected T or F, got 'yes'"),
        (ROW * 2, "T\n", "x.gold.txt, line 2: the file ends after 1 lines"),
        (ROW, "T\nF\n", "x.data.txt, line 2: the file ends after 1 lines"),
        ("", "", "x.data.txt, line 1: the file ends after 0 lines"),
    ],
)
def test_a_bad_line_is_named(data, gold, message, tmp_path):
    (tmp_path / "x.data.txt").write_text(data)
    (tmp_path / "x.gold.txt").write_text(gold)
    with pytest.raises(DataError, match=message):
        read_pairs(tmp_path / "x.data.txt", tmp_path / "x.gold.txt")


def test_layers_with_context_part_what_static_vectors_cannot(tiny, tmp_path):
    found = probe_wic(ProbeInputs(tiny, write_wic(tmp_path))).scores
    assert found["test_accuracy_layer_1"] == 100
    assert "test_accuracy_sense_vectors" in found
    assert found["test_accuracy_layer_0"] == found["test_accuracy_static"] == 50


def test_the_mean_is_taken_off_where_that_is_better_on_dev():
    apart = np.array([[1, 0], [0, 1], [1, 0], [1, 0.1]] * 4, np.float32)
    truths = np.array([False, True] * 4)
    shifted = apart + np.array([5000, 5000], np.float32)
    plain = score_pairs(dict.fromkeys(PARTS, apart), dict.fromkeys(PARTS, truths))
    moved = score_pairs(dict.fromkeys(PARTS, shifted), dict.fromkeys(PARTS, truths))
    assert plain[0] == moved[0] == dict.fromkeys(PARTS, 100.0)
    assert (plain[1]["centre"], moved[1]["centre"]) == ("none", "all")


def test_static_vectors_of_a_file_can_stand_beside(tiny, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("bank 1 2 3\n")
    found = probe_wic(ProbeInputs(tiny, write_wic(tmp_path / "data"), vectors))
    assert found.scores["test_accuracy_static"] == 50
    assert "vectors.txt" in found.data["files"]


def test_a_part_that_is_missing_or_there_twice_is_named(tiny, tmp_path):
    folder = write_wic(tmp_path)
    (folder / "more").mkdir()
    (folder / "more" / "dev.gold.txt").write_text("T\n")
    with pytest.raises(ConfigError, match=r"one file dev\.gold\.txt .* found dev.*, more"):
        probe_wic(ProbeInputs(tiny, folder))
    for path in folder.rglob("dev.gold.txt"):
        path.unlink()
    with pytest.raises(ConfigError, match=r"one file dev\.gold\.txt .* found none"):
        probe_wic(ProbeInputs(tiny, folder))


def test_sense_vectors_of_a_span_are_the_mean_of_its_words(tiny):
    sentences = [("a", "bank", "of", "a", "river"), ("the", "bank")]
    found = span_senses(tiny, (sentences, [[(1, 2), (0, 2)], [(1, 2)]]))
    alone = tiny.sense_vectors([list(words) for words in sentences])
    np.testing.assert_allclose(found[0], alone[0][1])
    np.testing.assert_allclose(found[1], alone[0][:2].mean(0))
    np.testing.assert_allclose(found[2], alone[1][1])
