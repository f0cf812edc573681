"""Acceptability by a threshold on how likely a sentence is."""

import numpy as np
import pytest

from relmo.errors import ConfigError, DataError
from relmo.lab.probes.acceptability import (
    matthews,
    probe_acceptability,
    read_judged,
    sentence_scores,
    sentences_in_words,
)
from relmo.lab.probes.inputs import ProbeInputs
from tests.support.toy_probes import write_judged


def test_a_score_is_the_gain_over_the_words_alone_per_word(tiny_lm):
    forward, backward, both = sentence_scores(tiny_lm, ["Mira sings.", "Sol"])
    score = tiny_lm.lm.score([["Mira", "sings", "."]])[0]
    shares = np.arange(11, 0, -1) / np.arange(9, 0, -1).sum()  # of all words but boundaries
    alone = np.log(shares[tiny_lm.lexicon.rows(["Mira", "sings", "."])]).sum()
    assert forward[0] == pytest.approx((score.forward.sum() - alone) / 3, abs=1e-5)
    np.testing.assert_allclose(both, forward + backward)


def test_matthews_is_this_by_hand():
    said, gold = np.array([1, 1, 0, 0], bool), np.array([1, 0, 0, 0], bool)
    assert matthews(said, gold) == pytest.approx((1 * 2 - 1 * 0) / np.sqrt(2 * 1 * 3 * 2))
    assert matthews(said, np.ones(4, bool)) == 0


def test_each_file_is_scored_by_the_threshold_of_the_training_file(tiny_lm, tmp_path):
    result = probe_acceptability(ProbeInputs(tiny_lm, write_judged(tmp_path)))
    assert result.scores["train_accuracy_forward"] == result.scores["dev_accuracy_forward"]
    assert -100 <= result.scores["dev_mcc_both"] <= 100
    assert result.settings["thresholds"].keys() == {"forward", "backward", "both"}
    assert result.settings["threshold_chosen_on"] == "train"
    assert sentences_in_words(result.scores).startswith("the threshold is chosen on train, whose")


def test_files_are_checked(tiny_lm, tmp_path):
    (tmp_path / "dev.tsv").write_text("x\t1\t\tMira sings.\n")
    with pytest.raises(ConfigError, match=r"expected one \*train\*\.tsv"):
        probe_acceptability(ProbeInputs(tiny_lm, tmp_path))
    (tmp_path / "train.tsv").write_text("x\t2\t\tMira sings.\n")
    with pytest.raises(DataError, match="line 1: expected four columns"):
        read_judged(tmp_path / "train.tsv")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("source\tlabel\tmark\tsentence", "got 'label' for 1 or 0; remove this line if it is a he"),
        ("index\tsentence", "got 2 columns; remove this line if it is a header"),
        ("x\t1\t\t ", "line 1: the sentence is empty"),
    ],
)
def test_what_is_no_judged_sentence_is_named(tmp_path, line, message):
    (tmp_path / "dev.tsv").write_text(f"{line}\nx\t1\t\tMira sings.\n")
    with pytest.raises(DataError, match=message):
        read_judged(tmp_path / "dev.tsv")


def test_files_of_one_name_are_refused(tiny_lm, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "dev.tsv").write_text("x\t1\t\tMira sings.\n")
    (tmp_path / "train.tsv").write_text("x\t1\t\tMira sings.\n")
    with pytest.raises(ConfigError, match="expected files of different names"):
        probe_acceptability(ProbeInputs(tiny_lm, tmp_path))
