"""Nearest occurrences: the right ones, in order, whatever the corpus looks like."""

import numpy as np
import pytest

from relmo.errors import TextError
from relmo.lab.probes import neighbors
from relmo.lab.probes.neighbors import (
    find_neighbors,
    find_position,
    nearest_occurrences,
    nearest_words,
)

CORPUS = [
    ["a", "play", "by", "ada"],
    ["they", "play", "and", "play"],
    ["nothing", "here"],
    [],
    ["Play", "!"],
    ["a", "play", "by", "ada"],
]
QUERY = ["the", "play", "was", "long"]


def cosine(a, b):
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


@pytest.mark.parametrize("layer", [0, 1, 2, None])
def test_occurrences_are_those_that_cosines_by_hand_give(tiny, layer, monkeypatch):
    monkeypatch.setattr(neighbors, "SENTENCES_AT_ONCE", 2)  # so that the corpus is read in parts

    def vectors(sentence):
        return (
            tiny.sense_vectors([sentence])[0] if layer is None else tiny.embed([sentence])[0][layer]
        )

    found = nearest_occurrences(tiny, QUERY, 1, CORPUS, layer=layer)
    by_hand = {
        (tuple(s), i): cosine(vectors(QUERY)[1], vectors(s)[i])
        for s in CORPUS
        for i, word in enumerate(s)
        if word.lower() == "play"
    }
    assert len(found) == len(by_hand) == 4, "a sentence that comes again counts once"
    assert {(o.words, o.position) for o in found} == by_hand.keys()
    for occurrence in found:
        assert occurrence.cosine == pytest.approx(
            by_hand[occurrence.words, occurrence.position], abs=1e-5
        )
        assert occurrence.words[occurrence.position].lower() == "play"
    assert [o.cosine for o in found] == sorted((o.cosine for o in found), reverse=True)


def test_the_sentence_itself_is_passed_over_and_count_bounds(tiny):
    found = nearest_occurrences(tiny, QUERY, 1, [QUERY, *CORPUS], count=2)
    assert len(found) == 2
    assert all(o.words != tuple(QUERY) for o in found)


def test_all_words_may_be_compared(tiny):
    found = nearest_occurrences(tiny, QUERY, 1, CORPUS, count=99, any_word=True)
    assert len(found) == sum(len(s) for s in {tuple(s) for s in CORPUS})
    by_layer = nearest_occurrences(tiny, QUERY, 1, CORPUS, layer=2, count=99, any_word=True)
    assert found == by_layer  # sense vectors are for one word, so the top layer it is


def test_a_corpus_without_the_word_has_none(tiny):
    assert nearest_occurrences(tiny, QUERY, 1, [["no", "such"]]) == []


def test_the_nearest_words_without_context_come_in_order_and_without_the_word(tiny):
    found = nearest_words(tiny, "play", ["played", "Play", "play", "xyz", "played", "clay"], 2)
    cosines = [c for _, c in found]
    assert len(found) == 2
    assert cosines == sorted(cosines, reverse=True)
    assert {"play", "Play"}.isdisjoint(w for w, _ in found)
    assert nearest_words(tiny, "play", ["Play"]) == []


def test_a_path_may_be_a_string(tiny, tmp_path):
    (tmp_path / "text.txt").write_text("they play .\n")
    find_neighbors(tiny, "play", "we play", str(tmp_path / "text.txt"), output=str(tmp_path / "o"))
    assert (tmp_path / "o" / "run.json").is_file()


def test_a_word_is_found_as_written_first():
    assert find_position(["Bank", "the", "bank"], "bank") == 2
    assert find_position(["Bank"], "bank") == 0
    with pytest.raises(TextError, match="'river' is not in the sentence; its words are"):
        find_position(["Bank"], "river")
