"""Terms and BM25; BM25 refines the query vector, and both scores are combined."""

import math
import sys
import time
import unicodedata

import numpy as np
import pytest

from relmo.errors import ConfigError
from relmo.search.lexical import MIN_EVENNESS, Fusion, bm25, make_analyzer, to_nfkc

pytest.importorskip("Stemmer", reason="pip install 'relmo[search]'")


def test_terms_are_stemmed_without_stop_words():
    assert make_analyzer("english")("The Boundaries of BANKS, ﬁtted.") == [
        "boundari",
        "bank",
        "fit",
    ]
    assert make_analyzer("none")("The Übung 水") == ["the", "übung", "水"]
    assert len(make_analyzer("none")("x" * 999)[0]) == 64


@pytest.mark.parametrize("mark", ["\u0301\u0323", "\u0f73", "\uff9e", "\u0344"])
def test_many_combining_marks_take_linear_time(mark):
    begin = time.perf_counter()
    assert make_analyzer("none")("a" + mark * 75_000 + " bank")[-1] == "bank"
    assert time.perf_counter() - begin < 2  # sorting them all took 41 s


def test_marks_that_occur_in_words_are_kept():
    assert make_analyzer("none")("e\u0301te\u0301 ﬁn") == ["été", "fin"]
    text = "".join(f"e{chr(code)}\u0301" for code in range(0x250, 0x3000)) + "Việt Nam ไทย עִבְרִית"
    assert to_nfkc(text) == unicodedata.normalize("NFKC", text)


def test_every_mark_is_known():
    codes = (chr(code) for code in range(0x20000, sys.maxunicode + 1, 7))
    assert not any(unicodedata.combining(each) for each in codes)


def test_an_unknown_language_is_reported_with_the_choices():
    with pytest.raises(ConfigError, match="english"):
        make_analyzer("klingon")


def test_bm25_is_the_formula_written_out():
    often, length = np.array([1.0, 3.0]), np.array([10.0, 40.0])
    rarity = math.log(1 + (100 - 2 + 0.5) / 2.5)
    wanted = [
        rarity * f * 2.5 / (f + 1.5 * (0.25 + 0.75 * n / 20))
        for f, n in zip(often, length, strict=True)
    ]
    np.testing.assert_allclose(bm25(often, length, 20.0, 100), wanted)


def test_a_query_moves_towards_what_it_found():
    query, first = np.array([1.0, 0, 0], np.float32), np.array([[0, 1.0, 0]] * 2, np.float32)
    moved = Fusion().refine(query, np.array([3.0, 3.0]), first)
    np.testing.assert_allclose(np.linalg.norm(moved), 1, rtol=1e-6)
    assert moved[1] > moved[0] > 0


def test_passages_with_more_of_the_words_teach_more():
    query, first = np.zeros(2, np.float32), np.eye(2, dtype=np.float32)
    moved = Fusion(trust=2.0).refine(query, np.array([4.0, 2.0]), first)
    np.testing.assert_allclose(moved[1] / moved[0], 0.25, rtol=1e-6)
    alike = Fusion(trust=0.0).refine(query, np.array([4.0, 2.0]), first)
    np.testing.assert_allclose(alike[1], alike[0], rtol=1e-6)


def test_words_and_vectors_are_joined():
    fusion = Fusion(share=1.5, sharpness=3.0)
    even = fusion.combine(np.array([2.0] * 6 + [0]), np.array([0.0] * 6 + [1]))
    np.testing.assert_allclose(even, [1] * 6 + [1.5])  # words leave six equals: vectors decide
    one = fusion.combine(np.array([4.0, 2, 0, 0]), np.array([0.0, 0, 0.5, 1]))
    np.testing.assert_allclose(one, [1, 1 / 8, 0.5 * 1.5 * 0.1, 1.5 * 0.1])
    alone = fusion.combine(np.array([4.0, 0, 0]), np.array([0.0, 0.5, 1]))
    np.testing.assert_allclose(
        alone, [1, 0.5 * 1.5 * MIN_EVENNESS, 1.5 * MIN_EVENNESS]
    )  # the rest by vectors
