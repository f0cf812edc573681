"""Parts of speech, probed; the linear classifier learns what planes separate, and nothing else."""

import numpy as np
import pytest

from relmo.errors import ConfigError, DataError
from relmo.lab.probes.inputs import ProbeInputs
from relmo.lab.probes.pos import LinearSettings, fit_linear, most_frequent_tags, probe_pos
from relmo.tasks.ner.data import TaggedSentence
from tests.support.toy_probes import write_pos

FEW = LinearSettings(epochs=50, batch=16, rate=0.02)


def test_a_word_gets_its_most_frequent_tag_and_a_new_one_the_most_frequent_of_all():
    train = [
        TaggedSentence(("run", "run", "run"), ("NOUN", "VERB", "VERB")),
        TaggedSentence(("a", "b", "c", "tie", "tie"), ("X", "X", "X", "VERB", "NOUN")),
    ]
    asked = [TaggedSentence(("run", "new", "tie"), ("NOUN", "NOUN", "NOUN"))]
    assert most_frequent_tags(train, asked) == ["VERB", "VERB", "NOUN"]  # of equals by alphabet


def test_every_reading_is_scored_on_dev_and_test(tiny, tmp_path):
    result = probe_pos(ProbeInputs(tiny, write_pos(tmp_path)), FEW)
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
    result = probe_pos(ProbeInputs(tiny, write_pos(tmp_path / "data"), vectors), FEW)
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


QUICK = LinearSettings(epochs=30, batch=32, rate=0.02)


def made(seed, count=300, width=6, layers=1):
    values = np.random.default_rng(seed).normal(size=(count, layers, width))
    return values.astype(np.float32)


def accuracy(probe, features, labels):
    return (probe.predict(features) == labels).mean()


def by_sums(features, layer=0):
    """Three labels, parted by planes."""
    first, second = features[:, layer, 0], features[:, layer, 1]
    return np.where(first > 0.5, 2, np.where(second > 0, 1, 0)).astype(np.int64)


def test_what_planes_part_is_learned_and_holds_for_new_examples():
    train, dev, test = made(0, 1200), made(1), made(2)
    probe = fit_linear((train, by_sums(train)), (dev, by_sums(dev)), 3, QUICK)
    assert accuracy(probe, test, by_sums(test)) > 0.95


def test_what_no_plane_parts_is_not_learned():
    def xor(features):
        return ((features[:, 0, 0] > 0) ^ (features[:, 0, 1] > 0)).astype(np.int64)

    train, dev, test = made(0), made(1), made(2)
    probe = fit_linear((train, xor(train)), (dev, xor(dev)), 2, QUICK)
    assert accuracy(probe, test, xor(test)) < 0.65


def test_scale_and_place_of_the_features_do_not_matter():
    train, dev = made(0), made(1)
    labels = by_sums(train), by_sums(dev)
    moved = [each * 1000 + 5000 for each in (train, dev)]
    one = fit_linear((train, labels[0]), (dev, labels[1]), 3, QUICK)
    other = fit_linear((moved[0], labels[0]), (moved[1], labels[1]), 3, QUICK)
    assert other.dev_accuracy == pytest.approx(one.dev_accuracy, abs=1)


def test_a_feature_that_never_changes_does_no_harm():
    train, dev = made(0), made(1)
    train[:, :, 5] = dev[:, :, 5] = 7
    probe = fit_linear((train, by_sums(train)), (dev, by_sums(dev)), 3, QUICK)
    assert probe.dev_accuracy > 90


def test_the_mix_finds_the_layer_that_knows():
    train, dev = made(0, layers=3), made(1, layers=3)
    wanted = by_sums(train, layer=1), by_sums(dev, layer=1)
    probe = fit_linear((train, wanted[0]), (dev, wanted[1]), 3, QUICK)
    assert np.argmax(probe.shares()) == 1
    assert sum(probe.shares()) == pytest.approx(1)
    assert probe.dev_accuracy > 85


def test_the_strength_is_the_best_on_dev():
    train, dev = made(0, 40, 30), made(1, 400, 30)
    labels = [(each[:, 0, :2].sum(-1) > 0).astype(np.int64) for each in (train, dev)]
    settings = LinearSettings(strengths=(0.0, 0.3), epochs=60, batch=8, rate=0.02)
    both = fit_linear((train, labels[0]), (dev, labels[1]), 2, settings)
    scores = {}
    for strength in settings.strengths:
        alone = LinearSettings(strengths=(strength,), epochs=60, batch=8, rate=0.02)
        scores[strength] = fit_linear((train, labels[0]), (dev, labels[1]), 2, alone).dev_accuracy
    assert both.dev_accuracy == pytest.approx(max(scores.values()))
    assert both.strength == max(scores, key=lambda s: (scores[s], s))


def test_the_same_seed_gives_the_same_probe():
    train, dev = made(0), made(1)
    probes = [fit_linear((train, by_sums(train)), (dev, by_sums(dev)), 3, QUICK) for _ in range(2)]
    assert (probes[0].model.weight == probes[1].model.weight).all()


def test_float16_is_read_as_it_is():
    train, dev = (made(seed).astype(np.float16) for seed in (0, 1))
    assert fit_linear((train, by_sums(train)), (dev, by_sums(dev)), 3, QUICK).dev_accuracy > 90


def test_settings_that_train_nothing_are_refused():
    for wrong in ({"strengths": ()}, {"epochs": 0}, {"batch": 0}, {"rate": 0.0}):
        (name,) = wrong
        with pytest.raises(ConfigError, match=f"{name} (is empty|must be)"):
            LinearSettings(**wrong)
