"""Results as people and programs read them."""

import json

import pytest

from relmo.tasks.results import (
    Answer,
    Argument,
    Cluster,
    Entity,
    Frame,
    Label,
    Mention,
    Predicate,
    TaggedToken,
    bracketed,
    render,
    to_json,
)

TEXT = "the cat of Mira and Mira"


def mention(start, end):
    return Mention(TEXT[start:end], start, end, 0.9)


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ([Entity("Mira", "PER", 11, 15, 0.9)], "the cat of [PER Mira] and Mira"),
        ([TaggedToken("the", "DET", 0, 3, 1.0), TaggedToken("cat", "NOUN", 4, 7, 1.0)],
         "the/DET cat/NOUN"),
        ([Frame(Predicate("of", 8, 10, 1.0), (Argument("the cat", "A0", 0, 7, 0.5),))] * 2,
         "[A0 the cat] [V of] Mira and Mira\n[A0 the cat] [V of] Mira and Mira"),
        ([Cluster((mention(0, 15), mention(20, 24))), Cluster((mention(0, 7), mention(11, 15)))],
         "[1 [2 the cat] of [2 Mira]] and [1 Mira]"),
        (Answer("Mira", 11, 15, 0.4), "Mira"),
        (Label("good", 0.912), f"good\t0.91\t{TEXT}"),
        ([Label("good", 0.9), Label("long", 0.6)], f"good 0.90, long 0.60\t{TEXT}"),
        ([0.25, -1 / 3, 1e-9], "0.25 -0.333333 1e-09"),
        (None, ""),
        ([], TEXT),
        ("fine", "fine"),
    ],
)  # fmt: skip
def test_a_result_is_shown_in_words(result, shown):
    assert render(result, TEXT) == shown


def test_spans_side_by_side_and_inside_each_other_are_bracketed():
    assert bracketed("ab", [("X", 0, 1), ("Y", 1, 2)]) == "[X a][Y b]"
    assert bracketed("ab", [("X", 0, 2), ("Y", 0, 2)]).count("]]") == 1
    assert bracketed("", []) == ""


def test_bare_numbers_have_the_digits_of_float32():
    assert to_json([1 / 3, -1e-9 / 3, 0.0]) == [0.3333333, -3.333333e-10, 0.0]
    assert to_json((12345678.9, 7, True)) == [12345680.0, 7, True]


def test_a_result_is_json():
    frame = Frame(Predicate("of", 8, 10, 1.0), (Argument("the cat", "A0", 0, 7, 1 / 3),))
    assert json.loads(json.dumps(to_json([frame]))) == [
        {
            "predicate": {"text": "of", "start": 8, "end": 10, "score": 1.0},
            "arguments": [
                {"text": "the cat", "label": "A0", "start": 0, "end": 7, "score": 0.333333}
            ],
        }
    ]
    assert to_json(None) is None
    assert to_json("fine") == "fine"
