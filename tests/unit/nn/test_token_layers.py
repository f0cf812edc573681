"""Characters -> token vectors."""

import pytest
import torch

from relmo import CharCnnConfig
from relmo.kernels import reference
from relmo.kernels.char_cnn import char_convolutions
from relmo.nn.token_layers import CharCnn, initialize
from relmo.text.characters import make_characters

WORDS = ["a", "bank", "x" * 46, "x" * 47, "x" * 48, "x" * 60, "", "<S>", "</S>", "여행", "🙂"]


def make(**changes) -> tuple[CharCnn, torch.Tensor]:
    config = CharCnnConfig(
        **{"width": 8, "character_width": 4, "filters": ((1, 5), (7, 20)), **changes}
    )
    cnn = CharCnn(config)
    initialize(cnn, torch.Generator().manual_seed(3))
    return cnn.eval(), torch.from_numpy(make_characters(config).spell(WORDS))


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("filters", [((1, 5), (7, 20)), ((50, 3),), ((49, 3), (1, 1)), ((2, 3),)])
def test_one_matrix_product_over_fewer_columns_is_the_reference(activation, filters):
    cnn, words = make(activation=activation, filters=filters)
    whole = reference.char_convolutions(cnn.embedding(words), cnn.filters(), activation)
    for some in (slice(0, 2), slice(None), *(slice(i, i + 1) for i in range(len(WORDS)))):
        short = cnn.without_unneeded_padding(words[some])
        found = char_convolutions(
            cnn.embedding(short), cnn.filters(), activation, short.shape[1] < 50
        )
        torch.testing.assert_close(found, whole[some], rtol=0, atol=2e-6)


def test_words_that_are_not_there_cost_no_columns():
    cnn, words = make()
    padded = torch.cat([words[:2], torch.zeros(1, 50, dtype=torch.long)])
    assert cnn.without_unneeded_padding(padded).shape[1] == len("bank") + 2 + 7
    torch.testing.assert_close(cnn(padded)[:2], cnn(words[:2]))


def test_short_words_are_read_over_their_own_letters():
    cnn, words = make()
    assert cnn.without_unneeded_padding(words[:2]).shape[1] == len("bank") + 2 + 7
    assert cnn.without_unneeded_padding(words).shape[1] == 50


def test_a_word_does_not_depend_on_its_neighbours():
    cnn, words = make()
    together = cnn(words)
    for i in range(len(WORDS)):
        torch.testing.assert_close(cnn(words[i : i + 1])[0], together[i], rtol=0, atol=1e-6)


@pytest.mark.parametrize("num_highways", [0, 1, 3])
def test_any_number_of_highways(num_highways):
    cnn, words = make(num_highways=num_highways)
    assert cnn(words).shape == (len(WORDS), 8)
    assert len(cnn.highways) == num_highways


def test_without_projection_the_filters_are_the_vector():
    cnn, words = make(width=25, has_projection=False)
    assert cnn.projection is None
    assert cnn(words).shape == (len(WORDS), 25)


def test_a_shut_highway_lets_its_input_pass_and_an_open_one_transforms():
    x = torch.tensor([[1.0, -2.0]])
    moved = torch.tensor([[5.0, -5.0]])
    shut, opened = torch.full((1, 2), -100.0), torch.full((1, 2), 100.0)
    assert reference.highway(x, moved, shut).tolist() == [[1.0, -2.0]]
    assert reference.highway(x, moved, opened).tolist() == [[5.0, 0.0]]


def test_no_words_give_no_vectors():
    cnn, words = make()
    assert cnn(words[:0]).shape == (0, 8)


def test_the_padding_row_is_zero_and_stays_so():
    cnn, words = make()
    cnn(torch.cat([words, torch.zeros(1, 50, dtype=torch.long)])).sum().backward()
    assert not cnn.embedding.weight[0].any()
    assert not cnn.embedding.weight.grad[0].any()
