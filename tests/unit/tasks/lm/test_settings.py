"""Recipes: TOML into frozen settings, changes from the command line on top."""

import dataclasses
import json

import pytest

from relmo.errors import ConfigError
from relmo.tasks.lm.settings import LmSettings, load_recipe
from relmo.training.recipe import known_recipes


@pytest.fixture
def write(tmp_path):
    def write(text: str):
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return path

    return write


def test_the_package_has_recipes_of_three_sizes():
    assert {"base", "small", "tiny"} <= set(known_recipes("pretrain"))


@pytest.mark.parametrize("name", known_recipes("pretrain"))
def test_every_recipe_in_the_package_loads(name):
    recipe = load_recipe(name)
    assert recipe.model.name
    assert recipe.model.lstm.cell_clip is None
    assert json.loads(json.dumps(recipe.to_dict()))["lm"]["rows"] == recipe.lm.rows


def test_recipes_have_the_shapes_that_their_names_promise():
    shapes = {
        name: (lstm.num_layers, lstm.cell_width, lstm.output_width)
        for name in ("small", "base")
        for lstm in [load_recipe(name).model.lstm]
    }
    assert shapes == {"small": (2, 1024, 128), "base": (2, 4096, 512)}


def test_a_recipe_is_a_file_too(write):
    recipe = load_recipe(
        write("[training]\nsteps = 5\n[lm]\nrows = 8\n[model.lstm]\ncell_clip = 3")
    )
    assert (recipe.training.steps, recipe.lm.rows) == (5, 8)
    assert (recipe.model.lstm.cell_clip, recipe.model.lstm.output_clip) == (3, None)


def test_a_recipe_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(ConfigError, match="no recipe 'huge'; give a TOML file or one of base"):
        load_recipe("huge")


DEEP, DIGITS = "[" * 100_000, "9" * 5000


@pytest.mark.parametrize(
    "text",
    ["[lm", "rows == 3", "a = 1\na = 2", f"a = {DEEP}", f"a = {DIGITS}"],
    ids=lambda t: t[:9],
)
def test_bad_toml_is_named(write, text):
    with pytest.raises(ConfigError, match=r"mine\.toml: not valid TOML"):
        load_recipe(write(text))


@pytest.mark.parametrize("value", ["inf", "nan", "1e300", DIGITS, DEEP, str(2**64)], ids=len)
@pytest.mark.parametrize("key", ["epochs", "steps", "minutes", "seed"])
def test_numbers_that_nothing_can_use_are_refused(key, value):
    with pytest.raises(ConfigError, match=f"{key} must be an? (integer|number) "):
        load_recipe("tiny", [f"training.{key}={value}"])


def test_a_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_recipe(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("lm.row=4", "unknown key 'row'; did you mean 'rows'"),
        ("optimiser.learning_rate=1", "unknown key 'optimiser'; did you mean 'optimizer'"),
        ("training.step=4", "unknown key 'step'; did you mean 'steps'"),
        ("model.lstm.cell_widht=4", "unknown key 'cell_widht'; did you mean 'cell_width'"),
        ("model.char_cnn.with=4", "unknown key 'with'; did you mean 'width'"),
        ("model.nam=x", "unknown key 'nam'; did you mean 'name'"),
        ("data.helt_out=0.1", "unknown key 'helt_out'; did you mean 'held_out'"),
    ],
)
def test_an_unknown_key_suggests_the_nearest(change, message):
    with pytest.raises(ConfigError, match=message):
        load_recipe("tiny", [change])


def test_changes_are_numbers_strings_and_lists():
    changes = [
        "lm.rows=64",
        "lm.dropout=0.25",
        "optimizer.learning_rate=1e-2",
        "model.name=mine",
        'optimizer.optimizer="adagrad"',
        "model.char_cnn.filters=[[1, 8], [2, 24]]",
        "data.seed = 7",
    ]
    recipe = load_recipe("tiny", changes)
    assert (recipe.lm.rows, recipe.lm.dropout) == (64, 0.25)
    assert (recipe.optimizer.learning_rate, recipe.optimizer.optimizer) == (0.01, "adagrad")
    assert recipe.model.name == "mine"
    assert recipe.model.tokens.filters == ((1, 8), (2, 24))
    assert recipe.data.seed == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("optimizer.bilm_rate=0.5", "bilm_rate is for tasks"),
        ("lm.rows", "'lm.rows': expected section.key=value"),
        ("lm.rows.more=3", "'rows' is not a section"),
        ("lm=3", "tiny: lm: expected an object with settings, got 3"),
        ("model=3", "tiny: model: expected an object with settings, got 3"),
        ("model.lstm=3", "tiny: model: lstm must be an object, got 3"),
        ("model.char_cnn=3", "tiny: model: char_cnn must be an object, got 3"),
        ("lm.rows=many", "tiny: lm: rows must be an integer ≥ 1 or unset, got 'many'"),
        ("lm.rows=0", "rows must be an integer ≥ 1 or unset, got 0"),
        ("lm.window=1.5", "window must be an integer ≥ 1 or unset, got 1.5"),
        ("lm.vocabulary=3", "vocabulary must be an integer ≥ 4, got 3"),
        ("lm.negatives=0", "negatives must be an integer ≥ 1 or unset, got 0"),
        ("lm.dropout=1.0", "dropout must be a number ≥ 0 and < 1, got 1.0"),
        ("lm.word_dropout=-0.1", "word_dropout must be a number ≥ 0 and < 1, got -0.1"),
        ("lm.ahead=-1", "ahead must be a number ≥ 0, got -1"),
        ("lm.reach=1", "reach must be an integer ≥ 2, got 1"),
        ("lm.spans=[4, 0]", r"spans must be a list, each item an integer ≥ 1, got \[4, 0\]"),
        ("lm.spans=often", "spans must be a list, .*, got 'often'"),
        ("lm.spans=[true]", "spans must be a list, .*, got"),
        ("training.steps=none", "tiny: training: steps must be an integer ≥ 1"),
        ("training.log_every=0", "log_every must be an integer ≥ 1, got 0"),
        (
            "model.lstm.output_width=100",
            "tiny: model.lstm: output_width 100 exceeds cell_width",
        ),
        ("data.tokenizer=other", "data: tokenizer must be one of relmo, .*, got 'other'"),
        ("data.tokenizer=[1]", r"data: tokenizer must be one of relmo, .*, got \[1\]"),
    ],
)
def test_a_change_that_makes_no_sense_is_named(change, message):
    with pytest.raises(ConfigError, match=message):
        load_recipe("tiny", [change])


def test_words_ahead_lie_within_the_window():
    with pytest.raises(ConfigError, match="reach must be at most window 8, got 9"):
        load_recipe("tiny", ["lm.ahead=1", "lm.reach=9", "lm.window=8"])


def test_minutes_replace_what_else_bounds_a_run():
    assert load_recipe("tiny").training.epochs == 1
    training = load_recipe("tiny", minutes=0.5).training
    assert (training.epochs, training.steps, training.minutes) == (None, None, 0.5)


def test_a_change_replaces_what_else_bounds_a_run():
    training = load_recipe("tiny", ["training.steps=20"]).training
    assert (training.epochs, training.steps, training.minutes) == (None, 20, None)


def test_a_recipe_must_be_bounded(write):
    with pytest.raises(ConfigError, match="exactly one of epochs, steps and minutes"):
        load_recipe(write("[lm]\nrows = 4"))
    assert load_recipe(write("[lm]\nrows = 4"), minutes=3).training.minutes == 3


@pytest.mark.parametrize("section", ["model", "data"])
def test_text_is_split_as_the_model_will_split_it(section):
    recipe = load_recipe("tiny", [f"{section}.tokenizer=whitespace"])
    assert (recipe.model.tokenizer, recipe.data.tokenizer) == ("whitespace", "whitespace")


def test_two_tokenizers_are_refused():
    with pytest.raises(ConfigError, match="model.tokenizer is 'relmo' and data.tok.*; give one"):
        load_recipe("tiny", ["model.tokenizer=relmo", "data.tokenizer=whitespace"])


def test_settings_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        LmSettings().rows = 3
