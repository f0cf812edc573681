"""Vectors of annotated words, and what is read from them."""

import numpy as np
import pytest

from relmo.errors import TextError
from relmo.lab.probes.inputs import ProbeInputs, each_reading, read_layers, read_one

SENTENCES = [("a", "red", "bank"), ("nobody", "asks"), ("bank",), ()]
TEXT = SENTENCES, [[(2, 3), (0, 2)], [], [(0, 1)], []]


def test_a_span_is_the_mean_of_its_words_and_the_rest_is_left_out(tiny):
    table = read_layers(tiny, TEXT, None)
    first, _, third, _ = tiny.embed([list(words) for words in SENTENCES])
    wanted = [first[:, 2], first[:, :2].mean(1), third[:, 0]]
    assert table.shape == (3, 3, 16)
    np.testing.assert_allclose(table, wanted, atol=2e-3)


def test_a_kept_table_is_read_and_not_made_again(tiny, tmp_path, monkeypatch):
    made = read_layers(tiny, TEXT, tmp_path / "cache")
    with monkeypatch.context() as patch:
        patch.setattr(type(tiny), "embed_stream", None)
        assert (read_layers(tiny, TEXT, tmp_path / "cache") == made).all()
    other = read_layers(tiny, (SENTENCES, [[(2, 3)], [], [(0, 1)], []]), tmp_path / "cache")
    assert len(other) == 2
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_readings_are_each_layer_and_their_mean(tiny):
    table = read_layers(tiny, TEXT, None)
    found = dict(each_reading({"train": table}))
    assert list(found) == ["layer_0", "layer_1", "layer_2", "mean"]
    assert all((found[name]["train"] == read_one(table, name)).all() for name in found)
    assert (read_one(table, "layer_1") == table[:, 1]).all()
    wanted = table.astype(np.float32).mean(1)
    np.testing.assert_allclose(read_one(table, "mean"), wanted, rtol=1e-6)
    assert read_one(table, "mean").dtype == np.float32


def test_layer_0_knows_no_context(tiny):
    table = read_layers(tiny, TEXT, None)
    assert (table[0, 0] == table[2, 0]).all()
    assert (table[0, 1] != table[2, 1]).any()


def test_static_vectors_of_a_span_are_its_words_mean(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("a 1 0\nred 3 4\nbank 5 5\n")
    inputs = ProbeInputs(None, tmp_path, path)
    found = inputs.static({"train": TEXT, "test": ([("bank",)], [[(0, 1)]])}, {})
    assert found["train"].tolist() == [[5, 5], [2, 2], [5, 5]]
    assert found["test"].tolist() == [[5, 5]]


def test_an_error_leaves_no_half_table(tiny, tmp_path):
    with pytest.raises(TextError, match="token 1 is None"):
        read_layers(tiny, ([("a", None)], [[(0, 1)]]), tmp_path)
    assert not list(tmp_path.iterdir())
