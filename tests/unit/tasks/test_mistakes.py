"""Errors of task models: what is one, how they are counted, which are shown."""

from dataclasses import replace

import pytest
import torch

from relmo.tasks import results
from relmo.tasks.coref.data import CorefDocument
from relmo.tasks.inputs import Inputs
from relmo.tasks.mistakes import (
    FIELDS,
    TaskError,
    chosen,
    remarks,
    span_errors,
    summary,
    table_rows,
)
from relmo.tasks.ner.data import TaggedSentence
from relmo.tasks.plain_text import places_of
from relmo.tasks.registry import find_task
from relmo.tasks.results import Answer, Argument, Entity, Label, Mention, TaggedToken
from relmo.tasks.snli.data import SentencePair
from relmo.tasks.squad import data as squad
from relmo.tasks.srl.data import Frame
from relmo.tasks.sst.data import LabelledText
from relmo.tasks.static_vectors import random_vectors
from tests.support.toy_tasks import toy_recipe

TEXT = "Ada Lovelace of Oslo Inc met Bob"
ADA, OSLO, BOB = ("PER", 0, 12), ("ORG", 16, 24), ("PER", 29, 32)


def untrained(name, *examples):
    """A task with random weights that knows the labels of some examples."""
    recipe, kind = toy_recipe(name, "input.letters=0"), find_task(name)
    inputs = Inputs(random_vectors(["a"], 4), None, None, torch.device("cpu"))
    facts = kind.facts_of(examples)
    return kind(recipe.model, facts, inputs, inputs.make_module(recipe.input))


def errors_of(name, example, *found):
    errors = untrained(name, example).errors_of(example, found)
    return [(error.kind, error.gold, error.predicted, error.score) for error in errors]


# ── spans ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("found", "errors"),
    [
        ({ADA: 0.9, OSLO: 0.8, BOB: 0.7}, []),
        (
            {("PER", 0, 3): 0.9, ("LOC", 16, 24): 0.8, ("PER", 13, 15): 0.7},
            [
                ("wrong extent", "[PER Ada Lovelace]", "[PER Ada]", 0.9, 0, 12),
                ("spurious", "", "[PER of]", 0.7, 13, 15),
                ("wrong label", "[ORG Oslo Inc]", "[LOC Oslo Inc]", 0.8, 16, 24),
                ("missed", "[PER Bob]", "", None, 29, 32),
            ],
        ),
        (
            {ADA: 0.9, BOB: 0.9, ("LOC", 16, 20): 0.8, ("ORG", 21, 24): 0.7},  # two for one
            [
                ("spurious", "", "[LOC Oslo]", 0.8, 16, 20),
                ("wrong extent", "[ORG Oslo Inc]", "[ORG Inc]", 0.7, 16, 24),
            ],
        ),
    ],
)
def test_spans_differ_in_four_ways_and_each_is_counted_once(found, errors):
    assert [
        (e.kind, e.gold, e.predicted, e.score, e.start, e.end)
        for e in span_errors(TEXT, {ADA, OSLO, BOB}, found)
    ] == errors


# ── tasks ───────────────────────────────────────────────────────────────────────────────────

SENTENCE = TaggedSentence(("naïve", "Ada", "in", "😀"), ("O", "S-PER", "O", "S-LOC"))


def test_entities_are_compared_as_spans():
    found = Entity("Ada", "ORG", 6, 9, 0.6), Entity("😀", "LOC", 13, 14, 0.9)
    assert errors_of("ner", SENTENCE, *found) == [("wrong label", "[PER Ada]", "[ORG Ada]", 0.6)]


def test_tags_that_mark_no_entities_are_compared_word_by_word():
    sentence = replace(SENTENCE, tags=("ADJ", "PROPN", "ADP", "SYM"))
    places = places_of(sentence.words)
    tags = ("ADJ", "NOUN", "ADP", "SYM")
    found = [TaggedToken(*places.span(i, i)[:1], t, *places.span(i, i)[1:], 0.5)
             for i, t in enumerate(tags)]  # fmt: skip
    for name in ("pos", "ner"):
        task = untrained(name, sentence)
        (error,) = task.errors_of(sentence, found)
        assert (error.gold, error.predicted, error.label) == ("PROPN", "NOUN", "PROPN")
        assert error.in_context() == "naïve [Ada] in 😀"
        assert task.label_counts([sentence]).total() == 4


def test_a_wrong_class_is_an_error_with_the_texts():
    text, other = LabelledText(("so", "great"), "good"), LabelledText(("dull",), "bad")
    task = untrained("classify", text, other)
    (error,) = task.errors_of(text, [Label("bad", 0.8)])
    assert error == TaskError(
        label="good", gold="good", predicted="bad", score=0.8, text="so great"
    )
    assert not [*task.errors_of(other, [Label("bad", 0.8)])]
    pair = SentencePair(("it", "runs"), ("it", "sleeps"), "contradiction")
    (error,) = untrained("snli", pair).errors_of(pair, [Label("neutral", 0.5)])
    assert error.text == "it runs | it sleeps"


def test_arguments_follow_their_predicate_which_is_no_error_itself():
    frame = Frame(("she", "sang", "it", "now"), 1, ("B-ARG0", "B-V", "B-ARG1", "O"))
    arguments = Argument("she", "ARG0", 0, 3, 0.9), Argument("it now", "ARG1", 9, 15, 0.4)
    found = results.Frame(results.Predicate("sang", 4, 8, 1.0), arguments)
    wrong = ("wrong extent", "sang: [ARG1 it]", "sang: [ARG1 it now]", 0.4)
    assert errors_of("srl", frame, found) == [wrong]
    empty = results.Frame(found.predicate, ())
    missed = [("missed", "sang: [ARG0 she]", "", None), ("missed", "sang: [ARG1 it]", "", None)]
    assert errors_of("srl", frame, empty) == missed


def test_answers_are_wrong_of_a_wrong_extent_or_missing():
    context = squad.make_context("Ada lives in the old town of Rome.")
    answers = (squad.Answer("Rome", 7, 7), squad.Answer("old town of Rome", 4, 7))
    question = squad.Question("1", "", context, ("where", "?"), answers)
    gold = "Rome | old town of Rome"
    for text, kind in (("Ada", "wrong"), ("town", "wrong extent")):
        found = errors_of("squad", question, Answer(text, 0, 0, 0.7))
        assert found == [(kind, gold, text, 0.7)]
    assert errors_of("squad", question, Answer("the old town of Rome", 0, 0, 0.7)) == []
    assert errors_of("squad", question) == [("missed", gold, "", None)]


def test_mentions_are_missed_spurious_or_linked_to_another():
    words = ("Ada", "met", "Bob", "and", "she", "saw", "him", "there")
    document = CorefDocument("", 0, (words,), (((0, 0), (4, 4)), ((2, 2), (6, 6))))
    places = places_of(words)

    def found(*clusters):
        return [
            results.Cluster(tuple(Mention(*places.span(i, i), 0.5) for i in cluster))
            for cluster in clusters
        ]

    assert errors_of("coref", document, *found((0, 4), (2, 6))) == []
    assert errors_of("coref", document, *found((0, 6), (2, 7))) == [
        ("missed", "[she] = Ada", "", None),
        ("wrong link", "[him] = Bob", "[him] = Ada", 0.5),
        ("spurious", "", "[there] = Bob", 0.5),
    ]
    assert errors_of("coref", document, *found((2, 4), (0, 6)))[0] == (
        "wrong link", "[she] = Ada", "[she] = Bob", 0.5
    )  # fmt: skip
    assert ("missed link", "[she] = Ada", "[she]", 0.5) in errors_of(
        "coref", document, *found((0, 2), (4, 6))
    )


# ── summaries ───────────────────────────────────────────────────────────────────────────────


def wrong(gold, predicted, score=0.5, kind="wrong"):
    return TaskError(
        kind=kind, label=gold, gold=gold, predicted=predicted, score=score, text="the saw",
        start=4, end=7,
    )  # fmt: skip


def test_confusions_come_with_their_counts_and_the_most_confident_sample():
    errors = [wrong("N", "V", 0.4), wrong("V", "N"), replace(wrong("N", "V", 0.9), text="a so so")]
    found = summary(errors, {"N": 5, "V": 2, "D": 1}, most=1)
    first = {"gold": "N", "predicted": "V", "count": 2, "sample": "a so[ so]"}
    assert (found["count"], found["confusions"]) == (3, [first])
    assert found["table"]["N"] == {"D": 0, "N": 3, "V": 2}
    assert found["table"]["D"] == {"D": 1, "N": 0, "V": 0}
    assert [each["score"] for each in found["examples"]] == [0.9]


def test_many_labels_have_no_table_and_no_errors_no_counts():
    many = {str(number): 1 for number in range(20)}
    assert "table" not in summary([wrong("1", "2")], many, 5)
    assert summary([], many, 5) == {"count": 0, "examples": []}


def test_kinds_are_counted_by_label():
    errors = [wrong("PER", "", None, "missed"), wrong("LOC", "x", 0.5, "spurious")]
    found = summary(errors, {"PER": 3}, 5)["by_label"]
    assert [(row["label"], row["gold"], row["missed"], row["spurious"]) for row in found] == [
        ("LOC", 0, 0, 1), ("PER", 3, 1, 0), ("all", 3, 1, 1),
    ]  # fmt: skip


def test_every_kind_is_among_the_errors_shown_the_most_confident_first():
    errors = [wrong("a", "b", n / 10, "spurious") for n in range(9)]
    errors.append(wrong("a", "", None, "missed"))
    kept = chosen(errors, 3)
    assert [(e.kind, e.score) for e in kept] == [
        ("missed", None), ("spurious", 0.8), ("spurious", 0.7)
    ]  # fmt: skip
    assert chosen(errors, 0) == []


def test_a_long_text_is_cut_around_the_error():
    error = TaskError(gold="", predicted="", text="b" * 99 + "x" + "a" * 99, start=99, end=100)
    assert error.in_context(3) == "…bbb[x]aaa…"
    assert replace(error, start=0, end=0).in_context(3) == "b" * 9 + "…"


def test_a_row_of_the_table_has_all_fields():
    (row,) = table_rows([wrong("N", "V")])
    assert dict(zip(FIELDS, row, strict=True))["gold"] == "N"


# ── labels ──────────────────────────────────────────────────────────────────────────────────────


def test_labels_that_a_model_cannot_give_are_named():
    gold = {"PER": 3, "GPE": 2, "MISC": 1}
    left_out, strange = remarks(gold, ["LOC", "MISC", "ORG", "PER"], ["MISC"])
    assert left_out == "labels that this model's scores leave out: MISC (1)"
    assert strange.startswith("2 of 6 labels are none of the model's")
    assert strange.endswith(": GPE; the model knows LOC, MISC, ORG, PER")
    assert remarks({"PER": 3}, ["PER", "MISC"], ["MISC"]) == []
    assert remarks({"anything": 3}, [], []) == []
