"""The task models that come with relmo: two lines after a plain installation."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relmo
from relmo.tasks.installed import describe_task, installed_tasks

MODELS = Path(relmo.__file__).parent / "models"
TEXT = "Ada Lovelace didn't live in Paris 👋🏽; she wrote notes about Babbage's engine."


@pytest.fixture(scope="module")
def pos():
    return relmo.load("relmo-en-pos")


@pytest.fixture(scope="module")
def ner():
    return relmo.load("relmo-en-ner")


def test_words_have_their_part_of_speech(pos):
    found = [(token.text, token.tag) for token in pos("She saw a saw in London .")]
    assert found == [
        ("She", "PRON"), ("saw", "VERB"), ("a", "DET"), ("saw", "NOUN"), ("in", "ADP"),
        ("London", "PROPN"), (".", "PUNCT"),
    ]  # fmt: skip


def test_names_are_found_with_their_kind(ner):
    found = ner("Angela Merkel met NASA engineers in Paris.")
    assert [(entity.text, entity.label) for entity in found] == [
        ("Angela Merkel", "PER"), ("NASA", "ORG"), ("Paris", "LOC"),
    ]  # fmt: skip
    assert all(0.5 < entity.score <= 1 for entity in found)
    assert ner("It rained all day, and nobody came.") == []


def test_places_are_those_of_the_text_as_given(pos):
    for token in pos(TEXT):
        assert TEXT[token.start : token.end] == token.text
        assert 0 <= token.score <= 1


@settings(max_examples=40, deadline=None)
@given(text=st.text(max_size=80))
def test_places_of_any_text_are_its_own(pos, text):
    found = pos(text)
    assert [text[token.start : token.end] for token in found] == [token.text for token in found]
    assert all(one.end <= two.start for one, two in pairwise(found))


@settings(max_examples=20, deadline=None)
@given(text=st.text(max_size=80))
def test_names_in_any_text_are_its_own(ner, text):
    found = ner(f"Ada met {text} in Paris.")
    assert all(f"Ada met {text} in Paris."[e.start : e.end] == e.text for e in found)


@pytest.mark.parametrize(
    ("task", "score", "least", "furthest"),
    [("pos", "test_accuracy", 96.4, 0.03), ("ner", "test_f1", 76, 0.045)],
)
def test_its_facts_are_those_of_the_card(task, score, least, furthest):
    facts = describe_task(f"relmo-en-{task}")
    card = (MODELS / f"relmo-en-{task}" / "README.md").read_text(encoding="utf-8")
    assert facts["task"] == task
    assert facts["results"][score] > least
    assert f"{facts['results'][score]:.2f} %" in card
    assert facts["results"]["test_calibration_error"] < furthest
    assert f"relmo-en-{task}" in {each.name for each in installed_tasks()}


@pytest.mark.parametrize("folder", sorted(MODELS.glob("*/task.json")), ids=lambda p: p.parent.name)
def test_no_task_model_in_the_wheel_is_larger_than_4_mb(folder):
    assert sum(path.stat().st_size for path in folder.parent.iterdir()) < 4e6
