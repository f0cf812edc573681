"""Parts of speech, probed."""

import pytest

from relmo.errors import ConfigError, DataError
from relmo.lab.probes.inputs import ProbeInputs
from relmo.lab.probes.linear import LinearSettings
from relmo.lab.probes.pos import most_frequent_tags, probe_pos
from relmo.tasks.ner.data import TaggedSentence
from tests.support.toy_probes import write_pos

QUICK = LinearSettings(epochs=50, batch=16, rate=0.02)


def test_a_word_gets_its_most_frequent_tag_and_a_new_one_the_most_frequent_of_all():
    train = [
        TaggedSentence(("run", "run", "run"), ("NOUN", "VERB", "VERB")),
        TaggedSentence(("a", "b", "c", "tie", "tie"), ("X", "X", "X", "VERB", "NOUN")),
    ]
    asked = [TaggedSentence(("run", "new", "tie"), ("NOUN", "NOUN", "NOUN"))]
    assert most_frequent_tags(train, asked) == ["VERB", "VERB", "NOUN"]  # of equals by alphabet


def test_every_reading_is_scored_on_dev_and_test(tiny, tmp_path):
    result = probe_pos(ProbeInputs(tiny, write_pos(tmp_path)), QUICK)
    names = ["most_frequent", "layer_0", "layer_1", "layer_2", "mean", "mix"]
    wanted = {f"{part}_accuracy_{name}" for part in ("dev", "test") for name in names}
    assert result.scores.keys() == wanted
    assert result.scores["test_accuracy_most_frequent"] == 100
    assert result.scores["test_accuracy_layer_0"] == 100
    assert len(result.settings["mix"]) == 3
    assert result.data["train"] == {"sentences": 32, "words": 72}
    assert set(result.data["files"]) == {f"toy-{p}.conllu" for p in ("train", "dev", "test")}


def test_static_vectors_can_stand_beside(tiny, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("mira 1 0\nsol 1 0.1\nsings -1 1\nruns -1 1.1\nsongs 0 -3\n")
    result = probe_pos(ProbeInputs(tiny, write_pos(tmp_path / "data"), vectors), QUICK)
    assert result.scores["test_accuracy_static"] == 100
    assert "vectors.txt" in result.data["files"]


def test_a_tag_unseen_in_training_counts_as_wrong(tiny, tmp_path):
    path = write_pos(tmp_path) / "toy-test.conllu"
    path.write_text(path.read_text().replace("\tNOUN\t", "\tODD\t"))
    result = probe_pos(ProbeInputs(tiny, tmp_path))
    assert result.scores["test_accuracy_most_frequent"] == pytest.approx(100 * 8 / 9, abs=0.01)


def test_a_bad_line_and_a_missing_part_are_named(tiny, tmp_path):
    path = write_pos(tmp_path) / "toy-dev.conllu"
    path.write_text("# c\n1\tw\n")
    with pytest.raises(DataError, match=r"toy-dev\.conllu, line 2: 2 columns"):
        probe_pos(ProbeInputs(tiny, tmp_path))
    path.unlink()
    with pytest.raises(ConfigError, match="no dev part"):
        probe_pos(ProbeInputs(tiny, tmp_path))
