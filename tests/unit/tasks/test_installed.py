"""Task models by name: what is found, what is listed, and what is said of the wrong kind."""

import pytest

import relmo
from relmo import Elmo
from relmo.errors import ModelNotFound
from relmo.tasks import installed
from relmo.tasks.installed import InstalledTask, find_task_model, installed_tasks
from relmo.tasks.model_card import About
from relmo.tasks.released import export_task
from relmo.weights import find
from relmo.weights import installed as elmos
from tests.support.toy_tasks import TOYS, train_toy


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny):
    home = tmp_path_factory.mktemp("pos")
    data = TOYS["pos"].write_parts(home / "data", 16, 6)
    train_toy("pos", data, home / "run", tiny, "training.epochs=1")
    return home / "run"


@pytest.fixture
def bundled(monkeypatch, tmp_path, tiny, run):
    """An ELMo and a task model that need no path, and no package."""
    home = tmp_path / "models"
    monkeypatch.setattr(find, "_bundled", lambda: home)
    for module in (find, elmos):
        monkeypatch.setattr(module, "entry_points", lambda group, name="": [])
    tiny.save_pretrained(home / "tiny")
    about = About(name="tiny-pos", language="en", licence="CC-BY-SA-4.0")
    export_task(run, home / "tiny-pos", about)
    return home


def test_a_task_model_is_loaded_by_name_and_finds_its_elmo(bundled):
    pos = relmo.load("tiny-pos", device="cpu")
    assert repr(pos) == "Predictor('tiny-pos', text -> tokens)"
    assert [token.text for token in pos("ada saw")] == ["ada", "saw"]


def test_task_models_are_listed_apart_from_elmos(bundled):
    assert [model.name for model in elmos.installed_models()] == ["relmo-untrained", "tiny"]
    (found,) = installed_tasks()
    size = sum(path.stat().st_size for path in (bundled / "tiny-pos").iterdir())
    assert found == InstalledTask(
        "tiny-pos", "relmo", "pos", "tiny", True, "test_accuracy", found.value, size, "en",
        "CC-BY-SA-4.0", str(bundled / "tiny-pos"),
    )  # fmt: skip
    assert 0 <= found.value <= 100


def test_a_missing_elmo_and_a_damaged_model_are_told(bundled):
    (bundled / "tiny").rename(bundled.parent / "elsewhere")
    assert not installed_tasks()[0].has_elmo
    with pytest.raises(ModelNotFound, match="tiny-pos needs tiny; give it with --elmo: no model"):
        relmo.load("tiny-pos")
    (bundled / "tiny-pos" / "words.json").unlink()
    assert "words.json missing" in installed_tasks()[0].problem


def test_an_elmo_and_a_task_model_say_how_each_is_loaded(bundled):
    with pytest.raises(
        ModelNotFound,
        match=r"^tiny-pos is a task model, not an ELMo; load it with relmo\.load\('tiny-pos'\)",
    ):
        Elmo.from_pretrained("tiny-pos")
    for name in ("tiny", "relmo-untrained", bundled / "tiny"):
        with pytest.raises(ModelNotFound, match="is an ELMo, not a task model; `relmo embed`"):
            relmo.load(name)


def test_the_folder_of_a_run_is_told_from_an_elmo(run):
    with pytest.raises(ModelNotFound, match=r"run is a task model, not an ELMo; .*relmo predict"):
        find.detect(run)
    assert find_task_model(run) == run


def test_an_unknown_name_comes_with_the_nearest_and_the_installed_task_models(bundled):
    with pytest.raises(
        ModelNotFound,
        match=r"^no task model 'tiny-poss'; did you mean 'tiny-pos'\? \(installed: tiny-pos\)",
    ):
        relmo.load("tiny-poss")
    with pytest.raises(
        ModelNotFound, match=r"no model 'tyny'.*\(installed: relmo-untrained, tiny\)"
    ):
        Elmo.from_pretrained("tyny")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("relmo-xx-pos", "./models/relmo-xx-tasks"),
        ("relmo-xx-base-ner", "./models/relmo-xx-base-tasks"),
        ("relmo-xx-base-neer", "./models/relmo-xx-base-tasks"),
    ],
)
def test_our_own_that_is_not_installed_comes_with_its_install_line(
    bundled, monkeypatch, name, place
):
    monkeypatch.setitem(find.TASK_PACKAGES, "relmo-xx-pos", "./models/relmo-xx-tasks")
    monkeypatch.setitem(find.TASK_PACKAGES, "relmo-xx-base-ner", "./models/relmo-xx-base-tasks")
    with pytest.raises(ModelNotFound, match=rf"in a clone of relmo, pip install {place}$"):
        relmo.load(name)


def test_the_headline_is_the_task_s_own_score_of_the_test_part():
    scores = {"dev_f1": 3.0, "test_precision": 1.0, "test_f1": 2.0}
    assert installed.headline("ner", scores) == ("test_f1", 2.0)
    assert installed.headline("ner", {"dev_f1": 3.0}) == ("dev_f1", 3.0)
    assert installed.headline("ner", {"test_accuracy": 4.0}) == ("test_accuracy", 4.0)
    assert installed.headline("ner", {}) is None


@pytest.mark.parametrize(
    ("facts", "labels"),
    [
        ({"tags": ["B-PER", "I-PER", "O", "S-LOC"]}, ["LOC", "PER"]),
        ({"tags": ["NOUN", "VERB"]}, ["NOUN", "VERB"]),
        ({"labels": ["yes", "no"]}, ["no", "yes"]),
        ({}, []),
    ],
)
def test_labels_are_those_of_results(facts, labels):
    assert installed.labels_of(facts) == labels
