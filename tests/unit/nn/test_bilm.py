"""Two language models that never see each other."""

import pytest
import torch

from relmo import ElmoConfig, LstmConfig, WordTableConfig
from relmo.nn.bilm import BiLM, initialize
from relmo.types import Batch
from tests.conftest import tiny_config

T = 9


def table_model(num_layers: int = 3) -> BiLM:
    config = ElmoConfig(
        tokens=WordTableConfig(width=4, num_words=40),
        lstm=LstmConfig(num_layers=num_layers, cell_width=12, output_width=4),
    )
    return initialize(BiLM(config), seed=2).eval()


def read(model: BiLM, words: list[list[int]], state=None):
    lengths = torch.tensor([len(row) for row in words])
    index = torch.zeros(len(words), int(lengths.max()), dtype=torch.long)
    for row, sentence in zip(index, words, strict=True):
        row[: len(sentence)] = torch.tensor(sentence)
    with torch.no_grad():
        return model(Batch(torch.arange(40), index, lengths), state)


@pytest.mark.parametrize("layer", [0, 1, 2, 3])
@pytest.mark.parametrize("k", range(T))
def test_the_directions_stay_apart(layer, k):
    """Words after k change nothing forward up to k, words before k nothing backward from k on."""
    model = table_model()
    sentence = list(range(1, T + 1))
    after = sentence[: k + 1] + [w + 20 for w in sentence[k + 1 :]]
    before = [w + 20 for w in sentence[:k]] + sentence[k:]
    P = 4
    original = read(model, [sentence])[0].values[layer, 0]
    changed_after = read(model, [after])[0].values[layer, 0]
    changed_before = read(model, [before])[0].values[layer, 0]
    assert torch.equal(original[: k + 1, :P], changed_after[: k + 1, :P])
    assert torch.equal(original[k:, P:], changed_before[k:, P:])
    if layer > 0 and k < T - 1:
        assert not torch.equal(original[k, P:], changed_after[k, P:])
    if layer > 0 and k > 0:
        assert not torch.equal(original[k, :P], changed_before[k, :P])


def test_layer_0_is_the_token_vector_twice():
    model = table_model()
    values = read(model, [[1, 2, 3]])[0].values[0, 0]
    wanted = model.token_layer(torch.tensor([1, 2, 3]))
    assert torch.equal(values, torch.cat([wanted, wanted], -1))


def test_padding_does_not_change_a_sentence_and_is_zero():
    model = table_model()
    alone = read(model, [[5, 6, 7]])[0].values
    layers, _ = read(model, [[5, 6, 7], [1, 2, 3, 4, 5, 6, 7, 8]])
    torch.testing.assert_close(layers.values[:, 0, :3], alone[:, 0], rtol=0, atol=1e-6)
    assert not layers.values[:, 0, 3:].any()
    assert layers.mask.tolist() == [[True] * 3 + [False] * 5, [True] * 8]


def test_state_goes_in_and_comes_out_and_is_not_kept():
    model = table_model()
    first, state = read(model, [[1, 2, 3]])
    again, _ = read(model, [[1, 2, 3]])
    carried, _ = read(model, [[1, 2, 3]], state)
    assert torch.equal(first.values, again.values)
    assert not torch.equal(first.values, carried.values)


def test_a_stored_start_state_is_where_sentences_begin():
    config = tiny_config(start="stored")
    model = initialize(BiLM(config), seed=0)
    state = model.start_state(2)
    assert state.forward.h.shape == (2, 2, 8)
    assert state.backward.c.shape == (2, 2, 24)
    with torch.no_grad():
        model.start_backward_c += 1.0
    assert model.start_state(2).backward.c.eq(1).all()
    assert model.start_state(2).forward.c.eq(0).all()
    model.start = "zero"
    assert model.start_state(2).backward.c.eq(0).all()


def test_the_same_seed_makes_the_same_model():
    one, two, other = (initialize(BiLM(tiny_config()), seed) for seed in (1, 1, 2))
    same = [torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True)]
    assert all(same)
    assert not torch.equal(
        one.forward_lstm.layers[0].input_weight, other.forward_lstm.layers[0].input_weight
    )
