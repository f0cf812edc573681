"""Settings: frozen, checked, the same after a trip through JSON."""

import dataclasses
import json

import pytest

from relmo import CharCnnConfig, ElmoConfig, LstmConfig, WordTableConfig
from relmo.errors import ConfigError


@pytest.mark.parametrize(
    "config",
    [
        ElmoConfig(),
        ElmoConfig(
            tokens=CharCnnConfig(width=8, scheme="code_points", alphabet="가나 a"),
            lstm=LstmConfig(cell_width=8, output_width=8, has_projection=False, cell_clip=None),
            start="stored",
            training={"tokens": 5},
        ),
        ElmoConfig(
            tokens=WordTableConfig(width=4, num_words=10),
            lstm=LstmConfig(cell_width=8, output_width=4),
            tokenizer="whitespace",
        ),
    ],
)
def test_settings_survive_json(config):
    assert ElmoConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_settings_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ElmoConfig().start = "stored"


def test_ids_of_the_two_schemes_are_counted():
    assert CharCnnConfig().num_ids == 262
    assert CharCnnConfig(scheme="code_points", alphabet="abc").num_ids == 1 + 3 + 1 + 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LstmConfig(cell_width=4, output_width=8), "output_width 8 exceeds cell_width 4"),
        (lambda: LstmConfig(has_projection=False), "must equal"),
        (lambda: LstmConfig(cell_clip=-1.0), "cell_clip must be a number > 0 or unset, got -1.0"),
        (lambda: LstmConfig(cell_clip=0), "must be a number > 0"),
        (lambda: LstmConfig(num_layers=0), "num_layers must be an integer ≥ 1, got 0"),
        (lambda: LstmConfig(cell_width=1.5), "must be an integer"),
        (lambda: CharCnnConfig(activation="gelu"), "must be one of relu, tanh, got 'gelu'"),
        (lambda: CharCnnConfig(scheme="words"), "must be one of bytes, code_points"),
        (lambda: CharCnnConfig(filters=()), "filters is empty"),
        (lambda: CharCnnConfig(filters=((51, 4),)), "wider than max_characters 50"),
        (lambda: CharCnnConfig(filters=((1, 0),)), "filters must be a list"),
        (lambda: CharCnnConfig(max_characters=2), "max_characters must be an integer ≥ 3, got 2"),
        (lambda: CharCnnConfig(num_highways=-1), "num_highways must be an integer ≥ 0, got -1"),
        (lambda: CharCnnConfig(has_projection=False), "width must equal the number of filters"),
        (lambda: CharCnnConfig(alphabet="abc"), "byte scheme has no alphabet"),
        (lambda: CharCnnConfig(scheme="code_points", alphabet="aa"), "twice"),
        (lambda: WordTableConfig(width=0, num_words=1), "width must be an integer ≥ 1"),
        (lambda: ElmoConfig(tokens=CharCnnConfig(width=8)), "word vectors are 8 wide"),
        (lambda: ElmoConfig(tokenizer="spacy"), "must be one of relmo, treebank, whitespace"),
        (lambda: ElmoConfig(start="warm"), "must be one of zero, stored"),
    ],
)
def test_a_contradiction_is_named(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_an_unknown_key_suggests_the_nearest():
    values = ElmoConfig().to_dict()
    values["lstm"]["cel_clip"] = 3
    with pytest.raises(ConfigError, match="unknown key 'cel_clip'; did you mean 'cell_clip'"):
        ElmoConfig.from_dict(values)
    with pytest.raises(ConfigError, match="settings: unknown key 'zzz'; known: "):
        ElmoConfig.from_dict({**ElmoConfig().to_dict(), "zzz": 1})


def test_another_format_or_a_newer_version_is_refused():
    values = ElmoConfig().to_dict()
    for change in ({"format": "other"}, {"format_version": 99}):
        with pytest.raises(ConfigError, match="this relmo reads version 1"):
            ElmoConfig.from_dict({**values, **change})


def test_a_model_has_one_kind_of_input():
    values = ElmoConfig().to_dict()
    del values["char_cnn"]
    with pytest.raises(ConfigError, match="exactly one of"):
        ElmoConfig.from_dict(values)


@pytest.mark.parametrize(
    ("section", "value"),
    [
        ("char_cnn", 3),
        ("lstm", None),
        ("lstm", {"has_skips": "false"}),
        ("lstm", {"cell_clip": "3"}),
        ("char_cnn", {"filters": [[1]]}),
        ("char_cnn", {"filters": 3}),
        ("training", 3),
        ("name", []),
        ("tokenizer", ["relmo"]),
    ],
)
def test_a_value_of_another_kind_is_refused(section, value):
    with pytest.raises(ConfigError):
        ElmoConfig.from_dict({**ElmoConfig().to_dict(), section: value})


def test_the_section_says_what_kind_of_input_it_is():
    values = ElmoConfig().to_dict()
    values["word_table"] = {"width": 512}
    del values["char_cnn"]
    with pytest.raises(ConfigError, match="word_table: .*num_words"):
        ElmoConfig.from_dict(values)


def test_a_missing_key_is_named():
    values = ElmoConfig(tokens=WordTableConfig(width=512, num_words=3), lstm=LstmConfig()).to_dict()
    del values["word_table"]["width"]
    with pytest.raises(ConfigError, match=r"word_table: .*width"):
        ElmoConfig.from_dict(values)
