"""Terms and BM25."""

import math

import numpy as np
import pytest

from relmo.errors import ConfigError
from relmo.search.lexical import bm25, make_analyzer

pytest.importorskip("Stemmer", reason="pip install 'relmo[search]'")


def test_terms_are_stemmed_without_stop_words():
    assert make_analyzer("english")("The Boundaries of BANKS, ﬁtted.") == [
        "boundari",
        "bank",
        "fit",
    ]
    assert make_analyzer("none")("The Übung 水") == ["the", "übung", "水"]
    assert len(make_analyzer("none")("x" * 999)[0]) == 64


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
