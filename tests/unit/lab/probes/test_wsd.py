"""Senses by their examples: hand-made vectors with hand-computed scores, then toy data sets."""

import numpy as np
import pytest

from relmo.errors import ConfigError, DataError
from relmo.lab.probes.inputs import ProbeInputs
from relmo.lab.probes.wsd import (
    PLAIN,
    Instance,
    Rule,
    Senses,
    WsdSettings,
    cosines_of,
    disambiguate,
    f1,
    find_sets,
    probe_wsd,
    read_senses,
    read_wordnet,
)
from tests.support.toy_probes import WORDNET as SENSE_INDEX
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


# The unified format, its keys, and WordNet's senses; bad lines are named by file and line.


@pytest.fixture
def read(tmp_path):
    def read(xml, keys):
        return read_senses(*write_set(tmp_path, "set", xml, keys))

    return read


def test_words_instances_and_several_keys_are_read(read):
    xml = sense_xml("The Fulton_County/group/NOUN/i1 jury said/Say/VERB/i2", "so be/be/VERB/i3")
    found = read(xml, "i1 group%1:03:00::\ni2 say%2:32:00:: say%2:32:01::\n\n")
    assert [s.words for s in found] == [("The", "Fulton", "County", "jury", "said"), ("so", "be")]
    assert [s.document for s in found] == ["d0", "d1"]
    first, second = found[0].instances
    assert (first.entry, first.start, first.end) == (("group", "n"), 1, 3)
    assert second.entry == ("say", "v")
    assert second.keys == ("say%2:32:00::", "say%2:32:01::")


def test_an_instance_without_a_key_is_left_out(read):
    found = read(sense_xml("a/a/NOUN/i1 b/b/ADV/i2", "c/c/ADJ/i3"), "i2 b%4:02:00::\n")
    assert [i.id for sentence in found for i in sentence.instances] == ["i2"]
    assert [sentence.words for sentence in found] == [("a", "b"), ("c",)]
    assert [[(i.start, i.end) for i in s.instances] for s in found] == [[(1, 2)], []]


def test_entities_and_odd_words_are_kept(read):
    words = "&#x27;s &amp; שלום é " + "w" * 400
    found = read(sense_xml(f"{words} x/x/NOUN/i1"), "i1 x%1:00:00::\n")
    assert found[0].words == ("'s", "&", "שלום", "é", "w" * 400, "x")


def instance(attributes):
    return f"<corpus>\n<sentence>\n<instance {attributes}>w</instance>\n</sentence>\n</corpus>"


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        ("", "line 1: not well-formed XML"),
        ("<corpus>\n<sentence>\n</corpus>", "line 3: not well-formed XML"),
        (
            "<corpus>\n<sentence>\n<wf>a</wf>\n</sentence>\n</corpus>",
            "line 1: contains no inst",
        ),
        ("<corpus>\n<wf>a</wf>\n</corpus>", "line 2: <wf> is outside a sentence"),
        (
            "<corpus>\n<sentence>\n<wf> </wf>\n</sentence></corpus>",
            "line 3: <wf> must contain",
        ),
        ("<corpus>\n<sentence>\n<word>a</word>", "line 3: <word> is unknown inside a sentence"),
        ("<corpus>\n<sentence>\n<wf>a\n<wf>b</wf></wf>", "line 4: <wf> must contain words"),
        (instance('id="i" lemma="w"'), "line 3: an instance needs an id, a lemma and a pos"),
        (instance('id="i" lemma="w" pos="DET"'), "line 3: an instance needs .* NOUN, VERB"),
        (sense_xml("a/a/NOUN/i b/b/NOUN/i"), "line 6: duplicate instance id i"),
    ],
)
def test_a_bad_line_of_the_data_is_named(xml, message, read):
    with pytest.raises(DataError, match=rf"set\.data\.xml, {message}"):
        read(xml, "")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("i1 a%1:00:00::\ni1 a%1:00:00::\n", "line 2: duplicate keys for instance i1"),
        ("\n", "line 1: contains no keys"),
        ("i1\n", "line 1: expected an instance's id and its sense keys"),
        ("\ni1 bank\n", "line 2: expected an instance's id and its sense keys"),
        ("i9 a%1:00:00::\n", "line 1: no instance i9"),
    ],
)
def test_a_bad_line_of_the_keys_is_named(keys, message, read):
    with pytest.raises(DataError, match=rf"set\.gold\.key\.txt, {message}"):
        read(sense_xml("a/a/NOUN/i1"), keys)


def test_senses_of_wordnet_stand_in_its_order_and_satellites_are_adjectives(tmp_path):
    path = tmp_path / "index.sense"
    path.write_text(SENSE_INDEX)
    found = read_wordnet(path)
    assert found["bank", "n"] == ["bank%1:17:01::", "bank%1:14:00::"]
    assert found["bank", "v"] == ["bank%2:40:00::"]
    assert found["old", "a"] == ["old%3:00:01::", "old%5:00:00:past:00"]


def test_a_wordnet_without_senses_is_refused(tmp_path):
    path = tmp_path / "index.sense"
    path.write_text("")
    with pytest.raises(DataError, match="contains no senses"):
        read_wordnet(path)


@pytest.mark.parametrize("line", ["", "bank 1 1 1", "bank%9:00:00:: 1 1 1", "bank%1:1:1:: 1 x 1"])
def test_a_bad_line_of_wordnet_is_named(line, tmp_path):
    path = tmp_path / "index.sense"
    path.write_text(SENSE_INDEX + line + "\n")
    with pytest.raises(DataError, match=r"index\.sense, line 7: expected a sense key"):
        read_wordnet(path)
