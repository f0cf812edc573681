"""A record that contradicts itself is refused at once."""

import numpy as np
import pytest

from relmo.errors import OutputError
from relmo.vectors.record import Record


def test_layers_are_spelled_out():
    assert Record(0, "a", ["a"], np.zeros((1, 4), np.float32)).layers.shape == (1, 1, 4)
    assert Record(0, "a", ["a"], np.zeros((3, 1, 4), np.float32)).layers.shape == (3, 1, 4)


@pytest.mark.parametrize("shape", [(3, 2, 4), (2, 4), (4,), ()])
def test_vectors_must_fit_the_tokens(shape):
    with pytest.raises(OutputError, match=r"line 5: vectors of shape .* for 1 tokens"):
        Record(5, "a", ["a"], np.zeros(shape, np.float32))


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_vectors_must_be_float32_or_float16(dtype):
    with pytest.raises(OutputError, match=r"give float32 or float16"):
        Record(0, "a", ["a"], np.zeros((1, 4), dtype))
