"""Tasks by name, among them one that is written outside the package."""

import json

import pytest

from relmo.cli.main import main
from relmo.errors import ConfigError
from relmo.tasks import registry
from relmo.tasks.predictor import load
from relmo.tasks.registry import find_task, read_parts, register_task
from relmo.tasks.run import TaskRecipe, load_task, load_task_recipe, train_task
from relmo.training.optim import OptimSettings
from relmo.training.run import read_record
from relmo.training.trainer import TrainSettings
from tests.support.outside_task import Line, MoodSettings, MoodTask

GOOD, BAD = ("a warm day", "great fun", "such warm light"), ("a cold day", "no fun", "cold rain")
RECIPE = """
[model]
width = 6
[training]
epochs = 20
[optimizer]
learning_rate = 0.05
"""


@pytest.fixture
def mood(monkeypatch):
    """The outside task, registered for one test."""
    monkeypatch.setattr(registry, "_registered", {})
    register_task("mood", MoodTask)


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    lines = [f"good\t{text}" for text in GOOD] + [f"bad\t{text}" for text in BAD]
    for part in ("train", "dev", "test"):
        (folder / f"{part}.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.usefixtures("mood")
@pytest.mark.parametrize("place", ["nowhere", "input", "both"])
def test_an_outside_task_is_trained_evaluated_and_loaded(data, tmp_path, tiny, place):
    elmo = None if place == "nowhere" else tiny
    (tmp_path / "mood.toml").write_text(RECIPE)
    changes = [] if elmo is None else [f"input.place={place}"]
    recipe = load_task_recipe("mood", tmp_path / "mood.toml", changes)
    assert recipe.model == MoodSettings(width=6)
    scores = train_task("mood", recipe, data, tmp_path / "run", elmo=elmo, device="cpu")
    assert scores == {"dev_accuracy": 100, "test_accuracy": 100}
    record = read_record(tmp_path / "run" / "run.json")
    assert record["task"] == "mood"
    assert list(record["mixes"]) == {"input": ["input"], "both": ["input", "output"]}.get(place, [])
    task = load_task(tmp_path / "run", elmo=elmo, device="cpu")
    assert isinstance(task, MoodTask)
    assert task.score_on(task.read(data / "test.txt", "test")) == {"accuracy": 100}
    assert task.read_input("warm fun") == [Line(("warm", "fun"))]
    mood = load(tmp_path / "run", elmo=elmo, device="cpu")
    assert mood("warm fun") == "good"
    assert mood(["warm fun", "", "cold"]) == ["good", None, "bad"]


@pytest.mark.usefixtures("mood")
def test_a_recipe_may_be_made_in_python_and_a_run_resumed(data, tmp_path, tiny):
    def train(steps, width=8, **options):
        training = TrainSettings(steps=steps, checkpoint_every=2)
        recipe = TaskRecipe(
            model=MoodSettings(width=width),
            training=training,
            optimizer=OptimSettings(learning_rate=0.1),
        )
        train_task("mood", recipe, data, tmp_path / "run", elmo=tiny, device="cpu", **options)
        return read_record(tmp_path / "run" / "run.json")["steps"]

    assert train(3) == 3
    assert train(5, resume=True) == 5
    with pytest.raises(ConfigError, match=r"different settings \(model\); resume with"):
        train(9, width=3, resume=True)


@pytest.mark.usefixtures("mood")
def test_an_outside_task_needs_a_recipe_of_its_own():
    with pytest.raises(
        ConfigError,
        match="no recipe 'mood'; give a TOML file or one of classify, classify-few,",
    ):
        load_task_recipe("mood")


def test_the_commands_find_a_task_by_an_entry_point(data, tmp_path, monkeypatch, capsys):
    installed = tmp_path / "site" / "mood-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: mood\nVersion: 1.0\n")
    points = "[relmo.tasks]\nmood = tests.support.outside_task:MoodTask\n"
    (installed / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert find_task("mood") is MoodTask
    (tmp_path / "mood.toml").write_text(RECIPE)
    args = ["--data", data, "--output", tmp_path / "run", "--recipe", tmp_path / "mood.toml"]
    for command in (
        ["train", "mood", *args, "--elmo", "none", "--json"],
        ["evaluate", tmp_path / "run", "--data", data / "test.txt", "--json"],
    ):
        with pytest.raises(SystemExit, match="0"):
            main([str(each) for each in command])
        assert json.loads(capsys.readouterr().out.splitlines()[-1])
    with pytest.raises(ConfigError, match="unknown task 'moods'; did you mean 'mood'?"):
        find_task("moods")


def test_a_name_belongs_to_one_task(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    register_task("mood", MoodTask)
    register_task("mood", MoodTask)
    for name, task in (("ner", MoodTask), ("mood", find_task("ner"))):
        with pytest.raises(ConfigError, match=f"there is already a task '{name}'"):
            register_task(name, task)


def test_what_a_task_lacks_is_named():
    class Half(MoodTask):
        scores = MoodTask.__mro__[1].scores
        targets = MoodTask.__mro__[1].targets

    with pytest.raises(ConfigError, match="the task Half must define scores, targets"):
        register_task("half", Half)
    for wrong in (str, "mood", MoodSettings()):
        with pytest.raises(ConfigError, match="must be a subclass of LabelledTask, got"):
            register_task("wrong", wrong)


@pytest.mark.usefixtures("mood")
@pytest.mark.parametrize("part", ["train", "dev"])
def test_a_part_without_examples_is_refused(data, part):
    (data / f"{part}.txt").write_text("")
    with pytest.raises(ConfigError, match=f"data: the {part} part contains no examples"):
        read_parts("mood", data)
