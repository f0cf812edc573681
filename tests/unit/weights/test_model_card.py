"""The card of any model: it says what is known, and nothing else."""

import json

import pytest

from relmo import CharCnnConfig, Elmo, ElmoConfig, LstmConfig, WordTableConfig
from relmo.weights.model_card import model_card
from tests.conftest import tiny_config


def front_matter(card):
    begin, front, _ = card.split("---\n", 2)
    assert begin == ""
    return front.splitlines()


@pytest.mark.parametrize(
    ("licence", "line"),
    [("CC-BY-SA-4.0", "license: cc-by-sa-4.0"), ("ask us: first", "license: other"), ("", None)],
)
def test_the_front_matter_names_the_licence_as_the_hub_does(licence, line):
    front = front_matter(model_card(tiny_config(licence=licence), None))
    assert [each for each in front if each.startswith("license")] == ([line] if line else [])
    assert "library_name: relmo" in front
    assert "- elmo" in front


def test_sizes_are_the_models_own(tiny):
    card = model_card(tiny.config, 1000, "int8", 2_500_000)
    assert "3 layers of width 16" in card
    parameters = sum(p.numel() for p in tiny.bilm.parameters())
    assert f"| parameters | {parameters:,} without the softmax |" in card
    assert "| words | 18 filters over bytes, 1 highway |" in card
    assert "| softmax | 1,000 words |" in card
    assert "| storage | int8, 2.5 MB |" in card
    assert "| licence | not stated |" in card


def test_the_example_on_the_card_is_true(tiny):
    shape = tiny.embed([["The", "bank", "raised", "rates"]])[0].shape
    assert f"shape    # {shape}" in model_card(tiny.config, None)


def test_other_kinds_of_models_have_a_card():
    table = ElmoConfig(
        tokens=WordTableConfig(width=8, num_words=1234),
        lstm=LstmConfig(cell_width=16, output_width=8),
    )
    card = model_card(table, None)
    assert "# ELMo" in card
    assert "| words | vocabulary of 1,234 words |" in card
    assert "Words are cut" not in card
    letters = CharCnnConfig(width=8, scheme="code_points", alphabet="abc", filters=((1, 4),))
    card = model_card(tiny_config(tokens=letters, start="stored"), None)
    assert "filters over code points, 2 highways" in card
    assert "Words are cut after 48 characters." in card
    assert "a state that is stored with the weights" in card


def test_a_model_that_relmo_did_not_train_says_so():
    assert "## Training\n\nNot recorded." in model_card(tiny_config(), None)


@pytest.mark.parametrize("record", [{"by": "hand"}, {"steps": "many", "results": [1], "data": 3}])
def test_a_record_of_another_kind_is_shown_as_it_is(record):
    card = model_card(tiny_config(training=record), None)
    assert json.dumps(record, indent=2) in card


def test_what_the_trainer_recorded_is_a_table():
    record = {
        "steps": 12_000,
        "tokens_seen": 393_216_000,
        "seconds": 1200.0,
        "seed": 0,
        "hardware": "",
        "taught_by": "larger",
        "results": {"held_out_mean": 41.234},
    }
    card = model_card(tiny_config(training=record), None)
    assert "| tokens seen | 393,216,000 |\n| steps | 12,000 |" in card
    assert "| training time | 20.0 minutes |" in card
    assert "| seed | 0 |" in card
    assert "| teacher | larger |" in card
    assert "hardware" not in card
    assert "| held-out perplexity at the end | 41.23 |" in card
    assert "```" not in card


def test_a_saved_model_states_how_it_is_stored(tmp_path):
    Elmo.untrained(tiny_config(), seed=1).save_pretrained(tmp_path, storage="int8")
    assert "| storage | int8, 0.0 MB |" in (tmp_path / "README.md").read_text()
