"""Minimal pairs: what is right, by direction, paradigm and phenomenon."""

import json

import numpy as np
import pytest

from relmo.errors import ConfigError, DataError
from relmo.lab.probes.inputs import ProbeInputs
from relmo.lab.probes.minimal_pairs import (
    MinimalPair,
    accuracies,
    probe_minimal_pairs,
    read_pairs,
)
from tests.support.toy_probes import write_pairs

PAIRS = [
    MinimalPair("a", "b", *names) for names in (("x1", "x"), ("x1", "x"), ("x2", "x"), ("y", "y"))
]
GAINS = np.array([[1, -1, 0], [1, 1, 2], [0, 1, 1], [-1, -2, -3]], dtype=float)


def test_a_tie_is_wrong_and_a_phenomenon_is_the_mean_of_its_paradigms():
    found = accuracies(PAIRS, GAINS)
    assert [found[f"x_accuracy_{d}"] for d in ("forward", "backward", "both")] == [50, 75, 75]
    assert found["paradigm/x1_accuracy_both"] == 50  # 0 is no gain
    assert found["overall_accuracy_forward"] == pytest.approx(100 / 3, abs=1e-4)


def test_gains_are_those_of_the_scores(tiny_lm):
    pairs = [
        (["Mira", "sings", "."], ["Mira", "sing", "."]),
        (["the", "bank"], ["the", "bank"]),
        (["the", "bank"], ["the", "bank", "runs", "."]),
        ([], ["the"]),
    ]
    found = tiny_lm.lm.prefer(pairs)
    for row, pair in zip(found, pairs, strict=True):
        good, bad = tiny_lm.lm.score(pair)
        gain = good.forward.sum() - bad.forward.sum(), good.backward.sum() - bad.backward.sum()
        np.testing.assert_allclose(row, gain, atol=1e-5)
    assert (found[1] == 0).all()


def test_a_probe_reads_every_file_and_counts_unknown_words(tiny_lm, tmp_path):
    result = probe_minimal_pairs(ProbeInputs(tiny_lm, write_pairs(tmp_path)))
    assert result.data["pairs"] == {"count": 6}
    assert {"overall_accuracy_both", "agreement_accuracy_forward"} <= result.scores.keys()
    assert {"paradigm/agreement_1_accuracy_backward"} <= result.scores.keys()
    assert result.settings["ties"] == 0
    assert 0 < result.settings["unknown_words"] < 100


def test_a_file_needs_no_names(tmp_path):
    path = tmp_path / "islands.jsonl"
    path.write_text(json.dumps({"sentence_good": "A b.", "sentence_bad": "B a."}) + "\n\n")
    assert read_pairs(path) == [MinimalPair("A b.", "B a.", "islands", "islands")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: not JSON"),
        ("[1]", "line 1: expected an object with the strings"),
        ('{"sentence_good": "a"}', "line 1: expected an object with the strings"),
        ("", "contains no pairs"),
    ],
)
def test_what_is_no_pair_is_named(tmp_path, line, message):
    (tmp_path / "x.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match=message):
        read_pairs(tmp_path / "x.jsonl")


def test_a_folder_without_pairs_is_refused(tiny_lm, tmp_path):
    with pytest.raises(ConfigError, match=r"contains no \.jsonl files"):
        probe_minimal_pairs(ProbeInputs(tiny_lm, tmp_path))
