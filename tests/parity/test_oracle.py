"""Every layer from a zero state, compared with an independent implementation in float64 numpy."""

import numpy as np
import pytest

from relmo import Elmo
from tests.support.official import VARIANTS, write_official
from tests.support.oracle import all_layers

SENTENCES = [
    ["The", "bank", "of", "the", "river", "."],
    ["<S>", "</S>", "", "x" * 100, "가나다라마바사" * 4, "🙂", "\ud800a", "naïve"],
    ["word"] * 30,
    ["a"],
]


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_layer_is_the_oracles(tmp_path, variant):
    folder = write_official(tmp_path, **VARIANTS[variant])
    found = Elmo.from_pretrained(folder).embed(SENTENCES)
    for layers, sentence in zip(found, SENTENCES, strict=True):
        np.testing.assert_allclose(layers, all_layers(folder, sentence), rtol=0, atol=1e-5)


def test_clips_fire_on_many_cells_of_the_variant_named_so(tmp_path):
    """Otherwise the variant would prove nothing."""
    clipped = write_official(tmp_path / "1", **VARIANTS["clips firing"])
    free = {**VARIANTS["clips firing"], "cell_clip": None, "proj_clip": None}
    unclipped = write_official(tmp_path / "2", **free)
    a, b = (Elmo.from_pretrained(f).embed(SENTENCES)[2] for f in (clipped, unclipped))
    assert np.isclose(np.abs(a[1]), 0.2).mean() > 0.2
    assert np.abs(a - b).max() > 0.1
