"""Conditions as they are typed and as they are given."""

import pytest

from relmo.errors import ConfigError
from relmo.search.filters import Condition, conditions, parse_where


def test_typed_conditions_become_a_mapping():
    written = ["year>=1950", "year < 1960", "lang=en", 'zip="01"', "open!=true", "a=b=c", "x="]
    assert parse_where(written) == {
        "year": {">=": 1950, "<": 1960},
        "lang": {"=": "en"},
        "zip": {"=": "01"},
        "open": {"!=": True},
        "a": {"=": "b=c"},
        "x": {"=": ""},
    }


def test_a_mapping_becomes_conditions():
    assert conditions({"a": 1, "b": ["x", "y"], "c": {">": 2}}) == [
        Condition("a", "=", (1,)),
        Condition("b", "=", ("x", "y")),
        Condition("c", ">", (2,)),
    ]
    assert conditions(None) == []


@pytest.mark.parametrize(
    "wrong", ["year", "=1", "", "year>>2020", "year=>2020", "year==2020", "year<>2020", "a!>1"]
)
def test_what_is_no_condition_is_a_wrong_call(wrong):
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        parse_where([wrong])


@pytest.mark.parametrize(
    "wrong", [{"a\0b": 1}, {"": 1}, {"a": float("inf")}, {"a": {"~": 1}}, {"a": {"<": None}}]
)
def test_conditions_that_cannot_be_are_wrong_calls(wrong):
    with pytest.raises(ConfigError):
        conditions(wrong)
    with pytest.raises(ConfigError):
        conditions({"a": [["deep"]]})


def test_a_value_that_starts_with_an_operator_is_quoted():
    assert parse_where(['note=">x"', "a=!x"]) == {"note": {"=": ">x"}, "a": {"=": "!x"}}


def test_a_condition_is_not_replaced_by_a_second_one():
    with pytest.raises(ConfigError, match="two conditions lang="):
        parse_where(["lang=en", "lang=de"])


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ("stars>=", "has no value; write one after >="),
        ("verdict=good and stars>3", "looks like two conditions; give each in its own --where"),
    ],
)
def test_half_a_condition_and_two_at_once_are_refused(wrong, what):
    with pytest.raises(ConfigError, match=what):
        parse_where([wrong])
    assert parse_where(['title="war and peace=x"', "title!=war and peace"])
