"""Where the words of an answer stand in the text that was given."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from relmo.tasks.plain_text import places_of, sentences_of

TEXT = "  Ada wrote. Mr. Sol can't  sing!\n\n«Où est Zoë?» 😀 she asked."


def words_at(places):
    return [places.text[a:b] for a, b in zip(places.starts, places.ends, strict=True)]


def test_a_place_is_where_the_word_stands():
    sentences = list(sentences_of(TEXT))
    assert [words[0] for words, _ in sentences] == ["Ada", "Mr.", "«", "😀"]
    for words, places in sentences:
        assert words_at(places) == list(words)
        assert places.text == TEXT


@given(st.text(max_size=80))
def test_every_word_of_any_text_is_found_at_its_place_once(text):
    sentences = list(sentences_of(text))
    for words, places in sentences:
        assert words_at(places) == list(words)
    assert "".join("".join(words) for words, _ in sentences) == "".join(text.split())
    starts = [start for _, places in sentences for start in places.starts]
    ends = [end for _, places in sentences for end in places.ends]
    assert all(end <= start for end, (_, start) in zip(ends, pairwise(starts), strict=False))


def test_a_span_is_the_text_as_it_was_given():
    ((_, places),) = sentences_of("So Ada  Lovelace wrote")
    assert places.span(1, 2) == ("Ada  Lovelace", 3, 16)


def test_words_without_a_text_stand_in_their_own():
    places = places_of(("So", "Ada", "wrote"))
    assert places.text == "So Ada wrote"
    assert places.span(1, 2) == ("Ada wrote", 3, 12)
    assert places_of(()).text == ""


def test_words_without_an_end_come_in_pieces(monkeypatch):
    monkeypatch.setattr("relmo.tasks.plain_text.LONGEST", 4)
    found = list(sentences_of("a b c d e f. G h."))
    assert [words for words, _ in found] == [
        ("a", "b", "c", "d"), ("e", "f", "."), ("G", "h", "."),
    ]  # fmt: skip
    assert [words_at(places) for _, places in found] == [list(words) for words, _ in found]


def test_names_in_a_list_are_sentences_of_their_own():
    found = [words for words, _ in sentences_of("Markets\nNew York\nParis\n\nIt rained in\nOslo.")]
    assert found == [
        ("Markets",),
        ("New", "York"),
        ("Paris",),
        ("It", "rained", "in"),
        ("Oslo", "."),
    ]
    wrapped = "It rained all night, and in\nthe morning they\nlearned that Ada had left\nOslo."
    assert len(list(sentences_of(wrapped))) == 1
