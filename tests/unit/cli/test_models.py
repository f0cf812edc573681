"""relmo info and relmo models of task models."""

import json

import pytest

from relmo.cli.main import app
from relmo.tasks.model_card import About, DataSource
from relmo.tasks.released import export_task
from relmo.weights import find
from tests.support.toy_tasks import TOYS, train_toy


@pytest.fixture(scope="module")
def home(tmp_path_factory, tiny):
    """A folder of bundled models: an ELMo and a task model that needs it."""
    root = tmp_path_factory.mktemp("home")
    tiny.save_pretrained(root / "models" / "tiny")
    data = TOYS["ner"].write_parts(root / "data", 16, 6)
    runs = [root / "0", root / "1"]
    for seed, run in enumerate(runs):
        train_toy("ner", data, run, tiny, "training.epochs=1", f"training.seed={seed}")
    source = DataSource(name="Toys", url="https://toys.example", terms="CC BY 4.0")
    about = About(name="tiny-ner", licence="CC-BY-SA-4.0", sources=(source,))
    export_task(runs[0], root / "models" / "tiny-ner", about, others=runs[1:])
    return root / "models"


@pytest.fixture
def say(home, monkeypatch, capsys):
    """Run a command and return what it prints."""
    monkeypatch.setattr(find, "_bundled", lambda: home)

    def say(*args):
        app([str(arg) for arg in args], standalone_mode=False)
        return capsys.readouterr().out

    return say


def rows(text):
    return dict(line.split("  ", 1) for line in text.splitlines() if "  " in line)


def test_info_of_a_task_model_is_a_table_for_people(say, home):
    shown = {key: value.strip() for key, value in rows(say("info", "tiny-ner")).items()}
    assert shown["task"] == "ner"
    assert shown["labels"] == "3: LOC, ORG, PER"
    assert shown["ELMo"] == "tiny, installed"
    assert "(mean of 2 seeds: " in shown["test F1"]
    assert shown["temperature"].endswith("calibrated on the dev part")
    assert shown["data"] == "data: 16 train, 6 dev, 6 test examples"
    assert shown["source"] == "Toys, https://toys.example, CC BY 4.0"
    assert shown["licence"] == "CC-BY-SA-4.0"
    assert "word vectors " in shown["size"]
    assert shown["files"].endswith("; checksums match")


def test_info_verbose_shows_the_record_and_every_file(say):
    shown = say("info", "tiny-ner", "--verbose")
    assert "  recipe.batch.size" in shown
    assert "  best.safetensors" in shown
    assert "  matches\n" in shown


def test_info_as_json_has_all_facts(say, home):
    facts = json.loads(say("info", home / "tiny-ner", "--json"))
    assert (facts["model"], facts["format"], facts["elmo"]["problem"]) == ("tiny-ner", "task", None)


def test_models_lists_task_models_below_elmos(say):
    elmos, tasks = say("models").split("\n\n")
    assert elmos.splitlines()[0].split()[:2] == ["model", "language"]
    heading, row = tasks.splitlines()
    assert heading.split() == [
        "task", "model", "task", "language", "ELMo", "score", "size", "licence", "from",
    ]  # fmt: skip
    assert row.split()[:6] == ["tiny-ner", "ner", "–", "tiny", "test", "F1"]
    assert row.split()[-2:] == ["CC-BY-SA-4.0", "relmo"]
    (task,) = json.loads(say("models", "--json"))["tasks"]
    assert (task["name"], task["elmo"], task["problem"]) == ("tiny-ner", "tiny", None)


def test_a_missing_elmo_and_damage_are_shown(say, home, monkeypatch):
    words = home / "tiny-ner" / "words.json"
    text = words.read_text()
    (home / "tiny").rename(home.parent / "moved")
    try:
        assert "ELMo" in (shown := rows(say("info", "tiny-ner")))
        assert "tiny, no model 'tiny'" in shown["ELMo"]
        assert " tiny (missing) " in say("models")
        words.write_text("[]")
        assert "is damaged" in say("models")
    finally:
        words.write_text(text)
        (home.parent / "moved").rename(home / "tiny")
