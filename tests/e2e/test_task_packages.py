"""The task models of models/*-tasks, as they are released: sizes, names, answers, places."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relmo
from relmo.tasks.installed import describe_task
from relmo.weights import find

ROOT = Path(__file__).parents[2]
PACKAGES = {"relmo-en-tasks": 30e6, "relmo-en-base-tasks": 60e6}
FOLDERS = {
    path.parent.name: path.parent
    for path in sorted((ROOT / "models/relmo-en-tasks/src/relmo_en_tasks").glob("*/task.json"))
}
"""Models upon relmo-en-small, which comes with relmo; others are not read here."""
each_model = pytest.mark.parametrize("name", FOLDERS or [pytest.param("-", marks=pytest.mark.skip)])
TEXT = "Ada Lovelace didn't live in Paris 👋🏽; she wrote notes about Babbage's engine."


@pytest.fixture(scope="module")
def loaded():
    """Loads a model once."""
    kept = {}

    def load(name):
        if name not in kept:
            kept[name] = relmo.load(FOLDERS[name])
        return kept[name]

    return load


def ask(model, text):
    """The results for a text, of a pair the second one."""
    others = model.task.text_names[1:]
    found = model("Who wrote notes?", text) if others else model(text)
    return found if isinstance(found, list) else [found] if found else []


def pieces(result):
    """Each result, and those inside it, that is a piece of the text."""
    if hasattr(result, "start"):
        yield result
    parts = [*getattr(result, "arguments", ()), *getattr(result, "mentions", ())]
    for part in [getattr(result, "predicate", None), *parts]:
        if hasattr(part, "start"):
            yield part


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_as_small_as_promised_and_names_its_models(package):
    root = ROOT / "models" / package
    if not root.is_dir():
        pytest.skip(f"{package} is not in a source archive, or not released yet")
    files = [path for path in root.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= PACKAGES[package]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = set(project["entry-points"]["relmo.models"])
    known = {name for name, place in find.TASK_PACKAGES.items() if place == f"./models/{package}"}
    assert names == known


@each_model
def test_its_facts_are_those_of_its_card(name):
    facts = describe_task(FOLDERS[name])
    card = (FOLDERS[name] / "README.md").read_text(encoding="utf-8")
    assert f"relmo-en-{name}" in card
    assert "## What it gets wrong" in card
    assert facts["licence"] == "CC-BY-SA-4.0"
    assert facts["sources"]
    assert facts["stored"]["test_calibration_error"] <= 0.05


@each_model
def test_its_results_stand_where_they_say(loaded, name):
    for result in ask(loaded(name), TEXT):
        for piece in pieces(result):
            assert TEXT[piece.start : piece.end] == piece.text
            assert 0 <= piece.score <= 1


@each_model
@settings(max_examples=10, deadline=None)
@given(text=st.text(max_size=80))
def test_places_in_any_text_are_its_own(loaded, name, text):
    for result in ask(loaded(name), text):
        for piece in pieces(result):
            assert text[piece.start : piece.end] == piece.text


NEWS = (
    "The city council met in Oslo on Monday. Mayor Anna Berg said that she would close the bridge."
)
EXPECTED = {
    "srl": lambda found: any(
        frame.predicate.text == "close"
        and any(part.text == "the bridge" and part.label == "ARG1" for part in frame.arguments)
        for frame in found
    ),
    "coref": lambda found: any(
        {"she"} < {mention.text for mention in cluster.mentions} for cluster in found
    ),
    "emotion": lambda found: all(hasattr(label, "score") for label in found),
    "nli": lambda found: found[0].label in ("entailment", "neutral", "contradiction"),
    "qa": lambda found: True,
}


@each_model
def test_it_reads_the_news(loaded, name):
    assert EXPECTED[name](ask(loaded(name), NEWS))
