"""Tokens -> one vector."""

import numpy as np
import pytest

from relmo.errors import ConfigError
from relmo.runtime.pooling import normalize, pool

TOKENS = np.array([[1, 5], [3, 1]], dtype=np.float32)


@pytest.mark.parametrize(
    ("how", "wanted"), [("mean", [2, 3]), ("max", [3, 5]), ("first", [1, 5]), ("last", [3, 1])]
)
def test_each_way_to_pool(how, wanted):
    assert pool(TOKENS, how).tolist() == wanted
    assert pool(TOKENS[:0], how).tolist() == [0, 0]


def test_a_mean_may_be_weighted():
    weights = np.array([1, 3], dtype=np.float32)
    assert pool(TOKENS, "mean", weights).tolist() == [2.5, 2]
    assert pool(TOKENS, "mean", np.zeros(2, np.float32)).tolist() == [0, 0]
    assert pool(TOKENS[:0], "mean", weights[:0]).tolist() == [0, 0]


def test_an_unknown_way_is_named():
    with pytest.raises(ConfigError, match="choose mean, max, first, last"):
        pool(TOKENS, "median")


def test_normalised_rows_have_length_one_and_zeros_stay():
    found = normalize(np.array([[3, 4], [0, 0]], dtype=np.float32))
    np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0]], rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1e30, 8e37])
def test_a_vector_of_any_scale_is_normalised(scale):
    rows = np.array([[3, 4], [0, 0], [3 * scale, 4 * scale]], dtype=np.float32)
    np.testing.assert_allclose(normalize(rows), [[0.6, 0.8], [0, 0], [0.6, 0.8]], rtol=1e-6)
    np.testing.assert_allclose(normalize(rows[2]), [0.6, 0.8], rtol=1e-6)
