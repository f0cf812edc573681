"""The arithmetic of a sentence, against figures worked out by hand."""

import pytest

from relmo import CharCnnConfig, ElmoConfig, LstmConfig
from relmo.config import WordTableConfig
from relmo.lab.bench.floor import MachineRates, floor_seconds, lstm_flops, word_flops

PAPER = ElmoConfig()
PLENTY = 1e30


def test_the_papers_lstms_need_151_mflop_per_token():
    assert lstm_flops(PAPER.lstm) == pytest.approx(151e6, rel=1e-3)


def test_the_papers_cnn_needs_53_mflop_for_a_word_that_fills_its_50_places():
    assert word_flops(PAPER.tokens, "x" * 60) == pytest.approx(53e6, rel=1e-2)


def test_a_short_word_costs_its_own_letters_alone():
    tokens = CharCnnConfig(
        width=2, character_width=3, filters=((1, 2),), num_highways=0, has_projection=False
    )
    assert word_flops(tokens, "ab") == 2 * 2 * 3 * (2 + 2)  # two markers stand around it
    assert word_flops(tokens, "é") == word_flops(tokens, "ab")  # two bytes
    assert word_flops(WordTableConfig(width=2, num_words=9), "ab") == 0


def test_one_sentence_waits_for_memory_and_many_for_arithmetic():
    config = ElmoConfig(
        tokens=WordTableConfig(width=2, num_words=9),
        lstm=LstmConfig(num_layers=1, cell_width=4, output_width=2),
    )
    weights = 4 * 4 * 2 + 4 * 2  # recurrent, projection
    reading = floor_seconds(config, [1], [], "float32", MachineRates(PLENTY, 1.0))
    assert reading == 2 * 3 * 4 * weights  # directions, steps with boundaries, bytes
    assert floor_seconds(config, [1] * 9, [], "float32", MachineRates(PLENTY, 1.0)) == reading
    assert floor_seconds(config, [1], [], "int8", MachineRates(PLENTY, 1.0)) == reading / 4
    counting = floor_seconds(config, [1, 5], [], "float32", MachineRates(1.0, PLENTY))
    assert counting == lstm_flops(config.lstm) * (3 + 7)


def test_new_words_are_added_and_no_sentence_takes_no_time():
    rates = MachineRates(1.0, PLENTY)
    more = floor_seconds(PAPER, [2], ["a", "bc"], "float32", rates)
    less = floor_seconds(PAPER, [2], [], "float32", rates)
    assert more - less == pytest.approx(
        word_flops(PAPER.tokens, "a") + word_flops(PAPER.tokens, "bc")
    )
    assert floor_seconds(PAPER, [], [], "float32", rates) == 0
