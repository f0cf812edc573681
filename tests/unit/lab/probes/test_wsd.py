"""Senses by their examples: hand-made vectors with hand-computed scores, then toy data sets."""

import numpy as np
import pytest

from relmo.errors import ConfigError
from relmo.lab.probes.inputs import ProbeInputs
from relmo.lab.probes.wsd import (
    PLAIN,
    Rule,
    Senses,
    WsdSettings,
    cosines_of,
    disambiguate,
    f1,
    find_sets,
    probe_wsd,
)
from relmo.lab.probes.wsd_data import Instance
from tests.support.toy_probes import sense_xml, write_set, write_wsd

RIVER, MONEY, SLOPE = "bank%1:17:01::", "bank%1:14:00::", "bank%1:17:02::"
WORDNET = {("bank", "n"): [RIVER, MONEY, SLOPE], ("star", "n"): ["star%1:17:01::"]}


def made(*keys, lemma="bank"):
    return Instance("i", (lemma, "n"), 0, 1, keys)


TAUGHT = [made(RIVER), made(MONEY), made(MONEY), made(MONEY, SLOPE)]
VECTORS = np.array([[1, 0], [0, 1], [0, 3], [-3, 2]], np.float32)
SENSES = Senses(list(enumerate(TAUGHT)), WORDNET)


def answers(vectors, rule=PLAIN, instances=None):
    asked = instances or [made() for _ in vectors]
    return disambiguate(SENSES, VECTORS, asked, np.array(vectors, np.float32), [rule])[0]


def test_senses_stand_by_their_examples_then_by_wordnet():
    assert SENSES.rows["bank", "n"] == {MONEY: [1, 2, 3], RIVER: [0], SLOPE: [3]}
    assert SENSES.most_frequent(("bank", "n")) == MONEY
    assert SENSES.first(("bank", "n")) == RIVER


def test_the_nearest_centroid_by_cosine_is_the_answer():
    # centroids: river (1, 0), money (-1, 2), slope (-3, 2)
    assert answers([[9, 1], [0, 5], [-5, 3]]) == [RIVER, MONEY, SLOPE]


def test_an_entry_that_training_does_not_show_gets_wordnets_first_sense():
    star, unknown = made(lemma="star"), made(lemma="qwx")
    assert answers([[1, 0], [1, 0]], instances=[star, unknown]) == ["star%1:17:01::", None]
    assert SENSES.most_frequent(("star", "n")) == "star%1:17:01::"
    assert SENSES.most_frequent(("qwx", "n")) is None


def test_an_entry_is_lemma_and_part_of_speech():
    verb = Instance("i", ("bank", "v"), 0, 1, ())
    assert answers([[1, 0]], instances=[verb]) == [None]


def test_a_prior_draws_towards_the_frequent_sense():
    assert answers([[1, 0.9]]) == [RIVER]
    assert answers([[1, 0.9]], Rule(prior=5)) == [MONEY]


def test_the_nearest_examples_vote_and_one_of_two_senses_votes_for_both():
    nearest = Rule(kind="neighbours", votes=1)
    assert answers([[9, 1], [0, 5]], nearest) == [RIVER, MONEY]
    # the nearest example is money's and slope's: the more frequent sense is taken
    assert answers([[-5, 3]], nearest) == [MONEY]
    assert answers([[9, 1]], Rule(kind="neighbours", votes=3)) == [MONEY]


def test_vectors_that_say_nothing_give_the_most_frequent_sense():
    same = np.ones((4, 2), np.float32)
    for centre in ("none", "all", "entry"):
        asked = [made(), made()]
        rules = [Rule(centre=centre)]
        found = disambiguate(SENSES, same, asked, np.ones((2, 2), np.float32), rules)
        assert found == [[MONEY, MONEY]]


def test_a_centre_takes_off_what_all_vectors_share():
    far = np.array([100, 0], np.float32)
    shifted = disambiguate(
        SENSES, VECTORS + far, [made()], np.array([[100, 5]], np.float32), [Rule(centre="entry")]
    )
    assert shifted == [[MONEY]]


def test_several_rules_at_once_are_each_alone():
    rules = [Rule(centre=c, prior=p) for c in ("none", "all", "entry") for p in (0.0, 0.3)]
    rules += [Rule(kind="neighbours", centre=c, votes=v) for c in ("none", "all") for v in (1, 3)]
    asked, vectors = [made()] * 3, np.array([[9, 1], [0, 5], [-5, 3]], np.float32)
    together = disambiguate(SENSES, VECTORS, asked, vectors, rules)
    alone = [disambiguate(SENSES, VECTORS, asked, vectors, [rule])[0] for rule in rules]
    assert together == alone


@pytest.mark.parametrize(
    ("found", "score"),
    [
        ([RIVER, SLOPE, "star%1:17:01::"], 100),
        ([RIVER, MONEY, RIVER], 100 * 2 / 3),
        ([RIVER, None, None], 50),  # precision 1, recall 1/3
        ([None, None, None], 0),
    ],
)
def test_f1_by_hand_any_of_several_keys_is_right(found, score):
    asked = [made(RIVER), made(MONEY, SLOPE), made("star%1:17:01::", lemma="star")]
    assert f1(asked, found) == pytest.approx(score)


def test_cosines_of_zero_vectors_are_zero():
    found = cosines_of(np.array([[0, 0], [2, 0]], np.float32), np.array([[1, 0], [0, 0]], "f4"))
    assert found.tolist() == [[0, 0], [1, 0]]


def test_sets_are_found_below_the_folder_and_all_is_no_set(tmp_path):
    folder = write_wsd(tmp_path)
    write_set(folder / "ALL", "ALL", sense_xml("a/a/NOUN/i"), "")
    assert list(find_sets(folder)) == ["semcor", "one", "two"]


def test_linked_folders_are_looked_into_and_rings_end(tmp_path):
    folder, data = tmp_path / "data", write_wsd(tmp_path / "elsewhere")
    folder.mkdir()
    (folder / "linked").symlink_to(data)
    (folder / "ring").symlink_to(folder)
    assert list(find_sets(folder)) == ["semcor", "one", "two"]


def test_every_reading_is_scored_on_each_set_and_on_all_together(tiny, tmp_path):
    found = probe_wsd(ProbeInputs(tiny, write_wsd(tmp_path)), WsdSettings(held_out=3))
    names = ["layer_0", "layer_1", "layer_2", "mean", "static"]
    names += [f"plain_{name}" for name in names] + ["first_sense", "most_frequent"]
    wanted = {f"{part}_f1_{name}" for part in ("dev", "one", "two", "test") for name in names}
    assert found.scores.keys() == wanted
    assert found.scores["one_f1_first_sense"] == pytest.approx(100 * 2 / 3, abs=1e-3)
    assert found.scores["two_f1_first_sense"] == 50  # old: the second sense is right
    assert found.scores["test_f1_first_sense"] == 60
    assert found.scores["one_f1_plain_layer_1"] == 100
    assert found.data["semcor"] == {"sentences": 12, "instances": 12}
    assert (found.settings["test_instances"], found.settings["test_instances_unseen"]) == (5, 2)


def test_what_is_missing_is_named(tiny, tmp_path):
    with pytest.raises(ConfigError, match=r"one file semcor\.data\.xml"):
        probe_wsd(ProbeInputs(tiny, tmp_path))
    folder = write_wsd(tmp_path)
    (folder / "wordnet" / "index.sense").unlink()
    with pytest.raises(ConfigError, match=r"one file index\.sense"):
        probe_wsd(ProbeInputs(tiny, folder))
    for path in [*folder.rglob("one.*"), *folder.rglob("two.*")]:
        path.unlink()
    with pytest.raises(ConfigError, match="no test set"):
        probe_wsd(ProbeInputs(tiny, folder))


def test_too_few_documents_to_choose_a_rule_are_refused(tiny, tmp_path):
    with pytest.raises(ConfigError, match=r"semcor.* contains 12 documents; every 99th is held"):
        probe_wsd(ProbeInputs(tiny, write_wsd(tmp_path)), WsdSettings(held_out=99))


def test_settings_that_choose_nothing_are_refused():
    with pytest.raises(ConfigError, match="held_out must be an integer ≥ 2, got 1"):
        WsdSettings(held_out=1)
