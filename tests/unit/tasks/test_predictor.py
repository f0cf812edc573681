"""A trained task model as a function: what it takes, and what it says of anything else."""

from types import SimpleNamespace

import pytest

from relmo.errors import TextError
from relmo.tasks.predictor import Predictor, in_parts


class Lengths:
    """A task whose result is the length of a text."""

    text_names = ("text",)
    result_name = "length"
    has_one_result = True

    def read_inputs(self, inputs):
        return [list(texts) for texts in inputs]

    def answer(self, examples):
        return [[SimpleNamespace(length=len(text), score=1.0)] for text in examples]


@pytest.fixture
def lengths():
    return Predictor(Lengths(), "lengths")


def test_a_text_gives_its_result_and_a_list_a_list(lengths):
    assert lengths("abc").length == 3
    assert [each.length for each in lengths(["a", "", "abc"])] == [1, 0, 3]
    assert lengths([]) == []


def test_a_stream_is_read_as_it_comes(lengths):
    found = lengths(iter(["a", "abc"]))
    assert not isinstance(found, list)
    assert [each.length for each in found] == [1, 3]


@pytest.mark.parametrize("given", [5, None, b"abc", {"a": 1}, {"a"}])
def test_what_is_no_text_is_named_at_once(lengths, given):
    with pytest.raises(TextError, match="lengths expected a string, a list or a stream"):
        lengths(given)


def test_an_item_that_is_no_text_is_named_by_its_number(lengths):
    with pytest.raises(TextError, match=r"expected a string as input 1 \(counted from 0\), got 7"):
        lengths(["a", 7])


def test_results_before_a_fault_in_a_stream_come_first(lengths):
    found = lengths(iter(["a", "abc", 7, "d"]))
    assert [next(found).length, next(found).length] == [1, 3]
    with pytest.raises(TextError, match="input 2"):
        next(found)


def test_items_before_a_fault_are_handed_out_before_it_is_raised():
    def broken():
        yield from "abc"
        raise TextError("no more")

    parts = in_parts(broken(), 2)
    assert [next(parts), next(parts)] == [["a", "b"], ["c"]]
    with pytest.raises(TextError, match="no more"):
        next(parts)
    assert list(in_parts("abcd", 2)) == [["a", "b"], ["c", "d"]]
