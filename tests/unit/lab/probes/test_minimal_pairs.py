"""Minimal pairs: what is right, by direction, paradigm and phenomenon."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from relmo.errors import ConfigError, DataError
from relmo.lab.probes.inputs import ProbeInputs
from relmo.lab.probes.minimal_pairs import (
    MinimalPair,
    PairRow,
    accuracies,
    find_pairs,
    pairs_in_words,
    probe_minimal_pairs,
    read_pairs,
)
from relmo.lab.probes.run import score_table
from tests.support.toy_probes import write_pairs

PAIRS = [
    MinimalPair("a", "b", *names, Path("x.jsonl"), 1)
    for names in (("x1", "x"), ("x1", "x"), ("x2", "x"), ("y", "y"))
]
GAINS = np.array([[1, -1, 0], [1, 1, 2], [0, 1, 1], [-1, -2, -3]], dtype=float)


def write_rows(path, *pairs):
    rows = ({"sentence_good": good, "sentence_bad": bad} for good, bad in pairs)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


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
    counts = {"pairs": 6, "paradigms": 2, "tied_pairs": 0, "identical_pairs": 0}
    assert counts.items() <= result.scores.items()
    assert result.scores["paradigm/agreement_1_pairs"] == 3
    assert 0 < result.scores["unknown_words_percent"] < 100
    told = pairs_in_words(result.scores)
    assert told.startswith("6 pairs, 2 paradigms, 0 ties (counted as wrong), ")
    assert "same after" not in told


def test_every_pair_has_a_row_with_the_gains_of_prefer(tiny_lm, tmp_path):
    write_pairs(tmp_path / "deep")
    result = probe_minimal_pairs(ProbeInputs(tiny_lm, tmp_path))
    row = PairRow(*result.rows[1])
    assert (row.paradigm, row.phenomenon) == ("agreement_1", "agreement")
    assert (row.file, row.line) == ("deep/agreement_1.jsonl", 2)
    assert row.sentence_good == "Now Mira sings songs."
    assert row.sentence_bad == "Now Mira sing songs."
    words = [[token.text for token in tiny_lm.tokens(text)] for text in row[4:6]]
    gain = tiny_lm.lm.prefer([tuple(words)])[0]
    np.testing.assert_allclose(row[6:9], [*gain, gain.sum()], atol=1e-5)
    assert row[9:12] == tuple(nats > 0 for nats in row[6:9])
    assert row.unknown_words == sum(w not in tiny_lm.lexicon for text in words for w in text)


def test_sentences_that_are_the_same_after_tokenization_are_counted_and_wrong(tiny_lm, tmp_path):
    write_rows(tmp_path / "x.jsonl", ("Sol runs.", "Sol  runs ."), ("Sol runs.", "runs Sol."))
    scores = probe_minimal_pairs(ProbeInputs(tiny_lm, tmp_path / "x.jsonl")).scores
    assert (scores["identical_pairs"], scores["tied_pairs"]) == (1, 1)
    assert scores["overall_accuracy_both"] <= 50
    assert pairs_in_words(scores).endswith("1 pair is the same after tokenization")


@pytest.mark.parametrize("empty", ["", " \t"])
def test_an_empty_sentence_is_named(tiny_lm, tmp_path, empty):
    write_rows(tmp_path / "x.jsonl", ("Sol runs.", "Sol run."), ("Sol runs.", empty))
    with pytest.raises(DataError, match=r"x\.jsonl, line 2: sentence_bad has no words"):
        probe_minimal_pairs(ProbeInputs(tiny_lm, tmp_path))


def test_names_of_the_data_do_not_mix_with_those_of_the_results():
    right = np.full((4, 3), 1.0)
    right[0] = -1
    names = ("a", "overall"), ("overall", "b"), ("c", "paradigm/a"), ("d", "x_accuracy_y")
    found = accuracies([MinimalPair("a", "b", *n, Path("x.jsonl"), 1) for n in names], right)
    assert found["overall_accuracy_both"] == 75
    assert found["phenomenon/overall_accuracy_both"] == 0
    assert found["paradigm/overall_accuracy_both"] == 100
    assert found["paradigm/a_accuracy_both"] == 0
    assert found["phenomenon/paradigm/a_accuracy_both"] == 100
    table = score_table(found, by_part=True)
    assert len(table.columns) == 4
    assert "x accuracy y" in table.columns[0].cells


def test_a_paradigm_of_two_phenomena_is_an_error(tiny_lm, tmp_path):
    for term in ("binding", "islands"):
        row = {"sentence_good": "a", "sentence_bad": "b", "UID": "x", "linguistics_term": term}
        (tmp_path / f"{term}.jsonl").write_text(json.dumps(row))
    message = (
        r"islands\.jsonl, line 1: paradigm 'x' has the phenomenon 'islands' here and 'binding'"
    )
    with pytest.raises(DataError, match=message):
        probe_minimal_pairs(ProbeInputs(tiny_lm, tmp_path))


def test_data_may_be_one_file_but_not_one_file_twice(tmp_path):
    path = tmp_path / "deep" / "x.jsonl.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(b'{"sentence_good": "A b.", "sentence_bad": "B a."}'))
    assert find_pairs(path) == find_pairs(tmp_path) == [path]
    assert read_pairs(path)[0].paradigm == "x"
    path.with_suffix("").write_text("{}")
    with pytest.raises(ConfigError, match=r"x\.jsonl and .*x\.jsonl\.gz are one file twice"):
        find_pairs(tmp_path)
    (tmp_path / "x.csv").write_text("")
    with pytest.raises(ConfigError, match=r"x\.csv: expected a \.jsonl file"):
        find_pairs(tmp_path / "x.csv")


def test_a_file_needs_no_names(tmp_path):
    path = tmp_path / "islands.jsonl"
    path.write_text(json.dumps({"sentence_good": "A b.", "sentence_bad": "B a."}) + "\n\n")
    assert read_pairs(path) == [MinimalPair("A b.", "B a.", "islands", "islands", path, 1)]


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
