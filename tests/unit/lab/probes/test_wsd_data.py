"""The unified format, its keys, and WordNet's senses; bad lines named by file and line."""

import pytest

from relmo.errors import DataError
from relmo.lab.probes.wsd_data import annotated_text, read_senses, read_wordnet
from tests.support.toy_probes import WORDNET, sense_xml, write_set


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
    assert annotated_text(found) == ([("a", "b"), ("c",)], [[(1, 2)], []])


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
    path.write_text(WORDNET)
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
    path.write_text(WORDNET + line + "\n")
    with pytest.raises(DataError, match=r"index\.sense, line 7: expected a sense key"):
        read_wordnet(path)
