"""Chunks by conlleval's definition, in every scheme, well-formed or not."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relmo.errors import TextError
from relmo.tasks.chunk_tags import (
    LabelledSpan,
    is_chunked,
    spans_of,
    stray_tags,
    to_bioes,
    transitions_allowed,
    without_labels,
)

BIOES = ["O", "B-x", "I-x", "E-x", "S-x", "B-y", "I-y", "E-y", "S-y"]
START, END = len(BIOES), len(BIOES) + 1


def spans(tags: str) -> list[tuple[int, int, str]]:
    return [(span.first, span.last, span.label) for span in spans_of(tags.split())]


@pytest.mark.parametrize(
    "tags",
    ["I-x I-x B-x O I-y", "B-x I-x B-x O B-y", "B-x E-x S-x O S-y", "B-x L-x U-x O U-y"],
    ids=["IOB1", "IOB2", "BIOES", "BILOU"],
)
def test_all_schemes_say_the_same(tags):
    assert spans(tags) == [(0, 1, "x"), (2, 2, "x"), (4, 4, "y")]
    assert to_bioes(tags.split()) == ("B-x", "E-x", "S-x", "O", "S-y")


@pytest.mark.parametrize(
    ("tags", "wanted"),
    [
        ("", []),
        ("O O", []),
        ("I-x I-y", [(0, 0, "x"), (1, 1, "y")]),
        ("B-x I-y", [(0, 0, "x"), (1, 1, "y")]),
        ("O I-x O", [(1, 1, "x")]),
        ("E-x E-x", [(0, 0, "x"), (1, 1, "x")]),
        ("B-x E-x I-x", [(0, 1, "x"), (2, 2, "x")]),
        ("B-x E-x E-x", [(0, 1, "x"), (2, 2, "x")]),
        ("S-x I-x E-x", [(0, 0, "x"), (1, 2, "x")]),
        ("B-x S-x B-x O", [(0, 0, "x"), (1, 1, "x"), (2, 2, "x")]),
        ("I-x E-x", [(0, 1, "x")]),
        ("B-x O I-x", [(0, 0, "x"), (2, 2, "x")]),
        ("I-x I-x I-y O I-y", [(0, 1, "x"), (2, 2, "y"), (4, 4, "y")]),
        ("B-x I-x O B-x B-x I-x B-y", [(0, 1, "x"), (3, 3, "x"), (4, 5, "x"), (6, 6, "y")]),
    ],
)
def test_an_ill_formed_sequence_has_conllevals_meaning(tags, wanted):
    assert spans(tags) == wanted


def test_a_chunk_ends_where_its_type_changes():
    assert spans_of(["B-x", "I-x", "I-y"]) == [LabelledSpan(0, 1, "x"), LabelledSpan(2, 2, "y")]


def test_a_label_may_hold_dashes_or_be_missing():
    assert spans("B-C-ARG1 I-C-ARG1") == [(0, 1, "C-ARG1")]
    assert spans("B I O B") == [(0, 1, ""), (3, 3, "")]
    assert to_bioes(["B", "I", "O", "B"]) == ("B", "E", "O", "S")


@pytest.mark.parametrize("tag", ["NOUN", "X-per", "B-", "-LRB-", "", "o", "O-x"])
def test_what_is_no_chunk_tag_is_named(tag):
    with pytest.raises(TextError, match="is not a chunk tag"):
        spans_of([tag])


@given(st.lists(st.sampled_from(BIOES)))
def test_bioes_keeps_the_chunks_and_needs_no_second_turn(tags):
    once = to_bioes(tags)
    assert spans_of(once) == spans_of(tags)
    assert to_bioes(once) == once


@given(st.lists(st.sampled_from(BIOES), min_size=1))
def test_converted_tags_make_only_legal_moves(tags):
    allowed = transitions_allowed(BIOES)
    path = [START, *map(BIOES.index, to_bioes(tags)), END]
    assert all(allowed[a, b] for a, b in pairwise(path))


@pytest.mark.parametrize("T", [1, 2, 3, 4])
def test_legal_sequences_are_those_that_conversion_leaves_alone(T):
    allowed = transitions_allowed(BIOES)
    for path in product(range(len(BIOES)), repeat=T):
        is_legal = all(allowed[a, b] for a, b in pairwise([START, *path, END]))
        tags = tuple(BIOES[i] for i in path)
        assert is_legal == (to_bioes(tags) == tags)


def test_nothing_leads_to_the_start_or_on_from_the_end():
    for tags in (BIOES, ["NOUN", "VERB"]):
        allowed, K = transitions_allowed(tags), len(tags)
        assert allowed.shape == (K + 2, K + 2)
        assert not allowed[:, K].any()
        assert not allowed[K + 1].any()
        assert not allowed[K, K + 1]


def test_parts_of_speech_may_follow_each_other_freely():
    tags = ["NOUN", "VERB", "I-am-a-noun"]
    allowed = transitions_allowed(tags)
    assert not is_chunked(tags)
    assert np.all(allowed[:4, :3])
    assert np.all(allowed[:3, 4])


def test_too_many_different_tags_are_refused_before_they_take_memory():
    with pytest.raises(TextError, match="at most 5,000 different tags, got 1,000,000; is this the"):
        transitions_allowed(range(1_000_000))


def test_tags_without_ends_are_iob2():
    tags = ["O", "B-x", "I-x", "I-y"]
    moves = {(a, b) for a, b in product(tags, tags)}
    allowed = transitions_allowed(tags)
    illegal = {(a, b) for a, b in moves if not allowed[tags.index(a), tags.index(b)]}
    assert illegal == {
        ("O", "I-x"), ("I-y", "I-x"),
        ("O", "I-y"), ("B-x", "I-y"), ("I-x", "I-y"),
    }  # fmt: skip
    assert allowed[4].tolist() == [True, True, False, False, False, False]
    assert allowed[:, 5].tolist() == [True, True, True, True, False, False]


def test_tags_mark_chunks_only_if_all_of_them_do():
    assert is_chunked(["O", "B-x"])
    assert is_chunked(["I"])
    assert not is_chunked(["O"])
    assert not is_chunked([])
    assert not is_chunked(["O", "B-x", "NOUN"])


@pytest.mark.parametrize(
    ("counts", "strays"),
    [
        ({"O": 90, "B-PER": 5, "I-PER": 4, "B_PER": 1}, {"B_PER"}),
        ({"O": 90, "B-PER": 5, "b-PER": 1, "B-": 1}, {"b-PER", "B-"}),
        ({"0": 90, "B-PER": 5, "I-PER": 4}, {"0"}),  # few tags, though many words
        ({"O": 9, "B-PER": 5, "x": 1, "y": 1, "z": 1}, {"x", "y", "z"}),  # few words, though many
        ({"O": 9, "B-PER": 1, "NN": 5, "VB": 5}, set()),
        ({"O": 9, "NN": 5, "VB": 5}, set()),
        ({"O": 9, "S": 5, "V": 1}, set()),  # bare letters may mean anything
        ({"O": 9, "B": 5, "I-PER": 1}, set()),
        ({"O": 9}, set()),
        ({}, set()),
    ],
)
def test_a_tag_is_a_slip_where_most_tags_follow_a_scheme(counts, strays):
    assert stray_tags(counts) == strays


def test_spans_with_some_labels_can_be_left_out():
    tags = ("B-PER", "E-PER", "O", "S-MISC", "I-MISC")
    assert without_labels(tags, ["MISC"]) == ("B-PER", "E-PER", "O", "O", "O")
    assert without_labels(tags, ()) == tags
