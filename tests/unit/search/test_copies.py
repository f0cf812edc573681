"""Near-copies of a hit are counted and left out; texts that differ in a number are none."""

import time

import pytest

from relmo.search import Document, Hit, SemanticIndex
from relmo.search.copies import LEAST_WORDS, distinct_hits

pytest.importorskip("Stemmer", reason="pip install 'relmo[search]'")
LONG = (
    "The board of the bank met in the old town hall by the river on a rainy afternoon and decided "
    "after a long debate that the rates on loans to small companies should not rise again before "
    "the end of the year because prices had fallen and trade with the islands was slow"
)


def hit(text, number=0):
    return Hit(f"d{number}", "s", 1, 0, len(text), 1.0 - number / 1000, text, {})


def kept(*texts, count=99):
    found = distinct_hits((hit(text, i) for i, text in enumerate(texts)), count)
    return [(each.text, each.copies) for each in found]


def test_the_same_words_are_shown_once_whatever_their_case_and_punctuation():
    texts = "The bank raised rates.", "“the BANK   raised rates!”", "The bank\nraised (rates)"
    assert kept(*texts, "The bank raised wages.") == [(texts[0], 2), ("The bank raised wages.", 0)]


@pytest.mark.parametrize(
    ("one", "other"),
    [("Learn C# now", "Learn C++ now"), ("It fell by -5", "It fell by 5"), ("5 %", "5"),
     ("Rates of 1.5 %", "Rates of 1,5 %"), ("Is 1-2 it?", "Is 1 2 it?"), ("…", "—"), ("🙂", "🙁"),
     ("कि", "की"), ("It is −3 now", "It is 3 now")],
)  # fmt: skip
def test_short_texts_with_other_words_or_numbers_are_both_shown(one, other):
    assert kept(one, other) == [(one, 0), (other, 0)]


def test_long_texts_that_share_most_of_their_words_are_shown_once():
    again = LONG.replace("rainy", "sunny")
    other = LONG.replace("bank", "club").replace("rainy", "sunny").replace("islands", "north")
    assert kept(LONG, again, other + " and nobody came") == [
        (LONG, 1),
        (other + " and nobody came", 0),
    ]


def test_long_texts_that_differ_in_one_number_are_both_shown():
    rows = [f"{LONG} in {year}" for year in (1950, 1951)]
    assert kept(*rows) == [(row, 0) for row in rows]
    assert kept(rows[0], rows[0].replace("rainy", "sunny")) == [(rows[0], 1)]
    swapped = [f"{LONG} from 3 to 5", f"{LONG} from 5 to 3"]
    assert kept(*swapped) == [(each, 0) for each in swapped]


def test_short_texts_that_share_most_of_their_words_are_both_shown():
    short = " ".join(LONG.split()[: LEAST_WORDS - 1])
    assert kept(short, f"{short}s") == [(short, 0), (f"{short}s", 0)]


def test_a_copy_is_counted_by_the_best_hit_that_is_like_it():
    one, two = LONG, "Another text. " * 3
    assert kept(one, two, one, two, one, count=3) == [(one, 2), (two, 1)]
    assert kept(one, one, two, one, count=2) == [(one, 1), (two, 0)]  # the last is not looked at


def test_ten_long_hits_are_compared_in_a_few_milliseconds():
    texts = [LONG.replace(" ", f" w{i} ") * 10 for i in range(10)]
    begin = time.perf_counter()
    assert len(kept(*texts)) == 10
    assert time.perf_counter() - begin < 0.2  # 10 ms of 12,000 words on an idle machine


@pytest.fixture
def index(tiny, tmp_path):
    """Twelve copies of one text, and three others."""
    documents = [Document(f"c{i:02}", "s", LONG) for i in range(12)]
    documents += [Document(f"o{i}", "s", f"The bank of river {i}.") for i in range(3)]
    with SemanticIndex.build(tmp_path / "i", documents, elmo=tiny) as built:
        yield built


@pytest.mark.parametrize("by", ["hybrid", "vectors", "words"])
def test_a_search_looks_further_until_there_are_enough_distinct_hits(index, by):
    hits = index.search(LONG, k=3, by=by)
    assert hits[0].document == "c00"
    assert sorted(each.copies for each in hits) == [0, 0, 11]
    assert len({each.text for each in hits}) == 3
    assert len(index.search(LONG, k=10, by=by)) == 4
    assert len(index.search(LONG, k=4, by=by, by_document=True)) == 4
    assert len(index.search(LONG, k=99, by=by, by_document=True)) == 4


def test_copies_are_returned_if_they_are_asked_for(index):
    hits = index.search(LONG, k=12, copies=True)
    assert [hit.document for hit in hits] == [f"c{i:02}" for i in range(12)]
    assert {hit.copies for hit in hits} == {0}
    assert hits[0].to_dict()["copies"] == 0
    assert len(index.search(LONG, k=99, copies=True)) == 15


def test_a_search_among_very_many_copies_ends(index, monkeypatch):
    monkeypatch.setattr("relmo.search.index.MAX_LOOKED", 4)
    hits = index.search(LONG, k=2)
    assert [(hit.document, hit.copies) for hit in hits] == [("c00", 7)]
