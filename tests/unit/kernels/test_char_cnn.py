"""Character convolutions as sums of looked-up rows: the reference's numbers."""

import numpy as np
import pytest
import torch

from relmo.config import CharCnnConfig
from relmo.kernels.char_cnn import LetterTables
from relmo.nn.token_layers import CharCnn, initialize
from relmo.text.characters import ByteCharacters

WORDS = ["a", "the", "antidisestablishmentarianism", "naïve", "😀", "x" * 400, "<S>", "", "U.S."]


def cnn_of(activation: str) -> CharCnn:
    filters = ((1, 8), (2, 8), (3, 16), (7, 32))
    config = CharCnnConfig(filters=filters, activation=activation, width=16, num_highways=1)
    cnn = CharCnn(config)
    initialize(cnn, torch.Generator().manual_seed(1))
    with torch.no_grad():
        for _, bias in cnn.filters():
            bias.uniform_(-1, 1, generator=torch.Generator().manual_seed(2))
    return cnn.requires_grad_(False)


def tables_of(cnn: CharCnn) -> LetterTables:
    return LetterTables(cnn.embedding.weight, cnn.filters(), cnn.activation, cnn.padding)


def spell(words: list[str]) -> torch.Tensor:
    return torch.from_numpy(ByteCharacters().spell(words))


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_responses_are_those_of_the_convolutions(activation):
    cnn, words = cnn_of(activation), spell(WORDS)
    found = tables_of(cnn)(words)
    torch.testing.assert_close(found, cnn.features(words), rtol=0, atol=2e-6)


def test_a_word_alone_has_the_bits_it_has_among_others():
    tables, words = tables_of(cnn_of("relu")), spell(WORDS)
    together = tables(words)
    for row, word in enumerate(words):
        assert torch.equal(tables(word.unsqueeze(0))[0], together[row])


def test_a_word_that_is_not_there_has_the_reference_s_numbers():
    cnn = cnn_of("relu")
    words = torch.from_numpy(np.concatenate([spell(["a"]).numpy(), np.zeros((1, 50), np.int64)]))
    torch.testing.assert_close(tables_of(cnn)(words), cnn.features(words), rtol=0, atol=2e-6)


def test_the_room_of_tables_is_known_before_they_are_made():
    cnn = cnn_of("relu")
    tables = tables_of(cnn)
    assert LetterTables.bytes_of(cnn.embedding.weight, cnn.filters()) == tables.rows.nbytes
