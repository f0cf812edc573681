"""Settings: the mechanism that checks them, and the settings of a model."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from relmo import CharCnnConfig, ElmoConfig, LstmConfig, WordTableConfig
from relmo.config import (
    Count,
    CountOrZero,
    DropoutRate,
    NonNegative,
    Positive,
    Range,
    Settings,
    build,
    check_keys,
    shown,
)
from relmo.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Sample(Settings):
    """One field of every kind."""

    size: Count = 2
    extra: CountOrZero = 0
    rate: Positive = 0.1
    penalty: NonNegative = 0.0
    dropout: DropoutRate = 0.5
    steps: Annotated[int, Range(least=4, most=8)] = 4
    kind: Literal["adam", "sgd"] = "adam"
    level: Literal[1, 2] = 1
    is_fast: bool = False
    name: str = ""
    clip: Positive | None = None
    shape: tuple[Count, Count] = (1, 2)
    layers: tuple[tuple[str, Count], ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
    anything: Any = None


@dataclass(frozen=True, kw_only=True)
class Interval(Settings):
    """Fields that must agree."""

    low: Count
    high: Count = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low > self.high:
            raise ConfigError(f"low {self.low} exceeds high {self.high}")


GOOD = {
    "size": [1, 10**9],
    "extra": [0, 3],
    "rate": [1e-9, 3, float("inf")],
    "penalty": [0, 0.5],
    "dropout": [0, 0.0, 0.999],
    "steps": [4, 8],
    "kind": ["sgd"],
    "level": [2],
    "is_fast": [True],
    "clip": [None, 0.5, 3],
    "shape": [(3, 4)],
    "layers": [(("a", 1),), ()],
    "record": [{"a": [1]}],
    "anything": [None, object],
}
BAD = [
    ("size", 0, "size must be an integer ≥ 1, got 0"),
    ("size", 2.0, "size must be an integer ≥ 1, got 2.0"),
    ("size", "2", "size must be an integer ≥ 1, got '2'"),
    ("size", True, "size must be an integer ≥ 1, got True"),
    ("size", None, "size must be an integer ≥ 1, got None"),
    ("extra", -1, "extra must be an integer ≥ 0, got -1"),
    ("rate", 0, "rate must be a number > 0, got 0"),
    ("rate", float("nan"), "rate must be a number > 0, got nan"),
    ("penalty", -0.1, "penalty must be a number ≥ 0, got -0.1"),
    ("dropout", 1, "dropout must be a number ≥ 0 and < 1, got 1"),
    ("dropout", False, "dropout must be a number ≥ 0 and < 1, got False"),
    ("steps", 9, "steps must be an integer ≥ 4 and ≤ 8, got 9"),
    ("kind", "lion", "kind must be one of adam, sgd, got 'lion'"),
    ("level", True, "level must be one of 1, 2, got True"),
    ("is_fast", 1, "is_fast must be true or false, got 1"),
    ("name", 3, "name must be a string, got 3"),
    ("clip", -1, "clip must be a number > 0 or unset, got -1"),
    ("shape", (1,), "shape must be a list of 2 items, each an integer ≥ 1, got (1,)"),
    ("shape", (1, 0), "shape must be a list of 2 items, each an integer ≥ 1, got (1, 0)"),
    ("layers", "ab", "layers must be a list, each item a list of 2 items, each a string, got 'ab'"),
    ("record", [], "record must be an object, got []"),
]


# --- the mechanism


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in GOOD.items() for v in values])
def test_a_value_that_the_annotation_allows_is_kept(name, value):
    assert getattr(Sample(**{name: value}), name) == value


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_a_message_names_field_rule_and_value(name, value, message):
    with pytest.raises(ConfigError) as caught:
        Sample(**{name: value})
    assert str(caught.value) == message


def test_lists_become_tuples_at_every_depth():
    sample = Sample(shape=[3, 4], layers=[["a", 1], ("b", 2)])
    assert sample.shape == (3, 4)
    assert sample.layers == (("a", 1), ("b", 2))
    hash(sample.layers)


def test_defaults_are_checked_too():
    @dataclass(frozen=True, kw_only=True)
    class Wrong(Settings):
        size: Count = 0

    with pytest.raises(ConfigError, match="size must be an integer ≥ 1"):
        Wrong()


def test_fields_that_must_agree_are_checked_after_their_types():
    assert Interval(low=3).high == 10
    with pytest.raises(ConfigError, match="low 3 exceeds high 2"):
        Interval(low=3, high=2)
    with pytest.raises(ConfigError, match="low must be an integer ≥ 1, got 'x'"):
        Interval(low="x")
    with pytest.raises(ConfigError, match="low 11 exceeds high 10"):
        dataclasses.replace(Interval(low=3), low=11)


@pytest.mark.parametrize(
    ("bounds", "inside", "outside", "words"),
    [
        ({"least": 1}, [1, 2], [0.9], "≥ 1"),
        ({"above": 0}, [1e-9], [0, -1], "> 0"),
        ({"most": 2.5}, [2.5, -9], [2.6], "≤ 2.5"),
        ({"below": 1}, [0.99], [1], "< 1"),
        ({"least": 0, "below": 1}, [0, 0.5], [1, -0.1], "≥ 0 and < 1"),
        ({}, [0, -(10**9)], [], ""),
    ],
)
def test_a_range_contains_its_bounds_as_it_says(bounds, inside, outside, words):
    limits = Range(**bounds)
    assert all(value in limits for value in inside)
    assert not any(value in limits for value in outside)
    assert str(limits) == words


def test_build_names_the_section_and_suggests_the_nearest_key():
    assert build(Interval, {"low": 3}, "range") == Interval(low=3)
    with pytest.raises(ConfigError, match=r"^range: low must be an integer ≥ 1, got 0$"):
        build(Interval, {"low": 0}, "range")
    with pytest.raises(ConfigError, match=r"^range: unknown key 'hihg'; did you mean 'high'\?$"):
        build(Interval, {"low": 1, "hihg": 2}, "range")
    with pytest.raises(ConfigError, match=r"^range: .*missing.*'low'"):
        build(Interval, {}, "range")
    with pytest.raises(ConfigError, match=r"^range: expected an object with settings, got \[\]$"):
        build(Interval, [], "range")
    with pytest.raises(ConfigError, match="x: unknown key 'zzz'; known: high, low"):
        check_keys({"zzz": 1}, {"low", "high"}, "x")


# --- the settings of a model


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
        (lambda: LstmConfig(num_layers=0), "num_layers must be an integer ≥ 1 and ≤ 100, got 0"),
        (lambda: LstmConfig(cell_width=1.5), "must be an integer"),
        (lambda: CharCnnConfig(activation="gelu"), "must be one of relu, tanh, got 'gelu'"),
        (lambda: CharCnnConfig(scheme="words"), "must be one of bytes, code_points"),
        (lambda: CharCnnConfig(filters=()), "filters is empty"),
        (lambda: CharCnnConfig(filters=((51, 4),)), "wider than max_characters 50"),
        (lambda: CharCnnConfig(filters=((1, 0),)), "filters must be a list"),
        (
            lambda: CharCnnConfig(max_characters=2),
            "max_characters must be an integer ≥ 3 and ≤ 10,000, got 2",
        ),
        (
            lambda: CharCnnConfig(num_highways=-1),
            "num_highways must be an integer ≥ 0 and ≤ 100, got -1",
        ),
        (lambda: CharCnnConfig(has_projection=False), "width must equal the number of filters"),
        (lambda: CharCnnConfig(alphabet="abc"), "byte scheme has no alphabet"),
        (lambda: CharCnnConfig(scheme="code_points", alphabet="aa"), "twice"),
        (lambda: WordTableConfig(width=0, num_words=1), "width must be an integer ≥ 1"),
        (
            lambda: ElmoConfig(tokens=CharCnnConfig(width=8)),
            "tokens.width 8 must equal",
        ),
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


@pytest.mark.parametrize("count", [101, 10**6])
def test_a_list_that_is_too_long_is_refused_before_its_items_are_looked_at(count):
    with pytest.raises(ConfigError, match=r"filters must be a list, .* \(at most 100 items\), got"):
        CharCnnConfig(filters=[object()] * count)


def test_a_message_quotes_a_long_value_in_part():
    assert shown("a" * 10**6).startswith("'aaa")
    assert len(shown("a" * 10**6)) < 100
    assert len(shown({str(i): [i] * 99 for i in range(999)})) < 500
    assert shown([4, 0]) == "[4, 0]"
