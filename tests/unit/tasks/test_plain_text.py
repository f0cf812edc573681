"""Where the words of an answer stand in the text that was given."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from relmo.tasks.plain_text import describe_span, documents_of_lines, sentences_of_lines

LINES = ["  Ada wrote. Mr. Sol can't  sing!", "", "«Où est Zoë?» 😀 she asked."]


def test_a_place_is_where_the_word_stands():
    for words, places in sentences_of_lines(LINES):
        assert [LINES[line - 1][start:end] for line, start, end in places] == list(words)
    assert {p.line for _, places in sentences_of_lines(LINES) for p in places} == {1, 3}


@given(st.lists(st.text(max_size=30), max_size=5))
def test_every_word_of_any_text_is_found_at_its_place_once(lines):
    sentences = list(sentences_of_lines(lines))
    for words, places in sentences:
        assert [lines[p.line - 1][p.start : p.end] for p in places] == list(words)
    placed = [p for _, places in sentences for p in places]
    assert "".join("".join(words) for words, _ in sentences) == "".join("".join(lines).split())
    assert placed == sorted(placed)
    assert all(a.line < b.line or a.end <= b.start for a, b in pairwise(placed))


def test_lines_are_counted_over_documents_and_blank_lines():
    lines = ["One.", "Two.", "", "  ", "Three.", "", "Four."]
    documents = [[p.line for _, places in d for p in places] for d in documents_of_lines(lines)]
    assert documents == [[1, 1, 2, 2], [5, 5], [7, 7]]


def test_places_are_right_in_documents_that_are_cut_for_their_length(monkeypatch):
    monkeypatch.setattr("relmo.text.documents.MAX_LINES", 3)
    monkeypatch.setattr("relmo.text.documents.MAX_CHARACTERS", 25)
    lines = [f"{'x' * n} Ada  wrote." for n in range(12)]
    documents = list(documents_of_lines(lines))
    assert len(documents) > 4
    for words, places in (sentence for document in documents for sentence in document):
        assert [lines[p.line - 1][p.start : p.end] for p in places] == list(words)
    assert {p.line for d in documents for _, places in d for p in places} == {*range(1, 13)}


def test_documents_hold_the_sentences_of_their_lines():
    (document,) = documents_of_lines(["Ada wrote. She left.", "He sang."])
    assert [words for words, _ in document] == [
        ("Ada", "wrote", "."), ("She", "left", "."), ("He", "sang", "."),
    ]  # fmt: skip


def test_a_span_says_where_it_stands_if_that_is_known():
    ((words, places),) = sentences_of_lines(["So Ada  Lovelace wrote"])
    wanted = {"first": 1, "last": 2, "text": "Ada Lovelace"}
    assert describe_span(words, (), 1, 2) == wanted
    assert describe_span(words, places, 1, 2) == {**wanted, "line": 1, "start": 3, "end": 16}
