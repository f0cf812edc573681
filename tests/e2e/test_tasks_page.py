"""The page on tasks: its files can be read, its tables are complete."""

import re
import shlex
from ast import literal_eval
from dataclasses import fields
from functools import partial
from pathlib import Path

import pytest

import relmo
from relmo.tasks import registry, results
from relmo.tasks.inputs import InputSettings
from relmo.tasks.labelled import LabelledTask
from relmo.tasks.registry import TASKS, find_task
from tests.support.outside_task import MoodTask
from tests.support.toy_tasks import TOYS, Rng, train_toy

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")
FILES = [
    ("ner", "### `ner`", 0, "train.txt", 2),
    ("pos", "### `pos`", 0, "train.conllu", 1),
    ("sst", "### `sst`", 0, "train.txt", 2),
    ("sst-phrases", "### `sst`", 0, "train.txt", 11),
    ("snli", "### `snli`", 0, "train.jsonl", 3),
    ("snli", "### `snli`", 1, "train.txt", 3),
    ("squad", "### `squad`", 0, "train.json", 1),
    ("srl", "### `srl`", 0, "train.conll", 2),
    ("coref", "### `coref`", 0, "train.conll", 1),
    ("ner", "### `ner`", 1, "train.jsonl", 2),
    ("ner", "### `ner`", 2, "train.jsonl", 2),
    ("multilabel", "### `multilabel`", 0, "train.jsonl", 3),
    ("multilabel", "### `multilabel`", 1, "train.csv", 3),
    ("encoder", "### `encoder`", 0, "train.jsonl", 3),
    ("classify", "## Your own data", 0, "reviews.csv", 2),
    ("sst", "## Your own data", 0, "reviews.csv", 2),
]
"""Task, heading, number of the example below it, name of the file, examples in it."""
BLOCK = re.compile(r"(?:^    .*\n(?:\n(?=    ))?)+", re.MULTILINE)


def block(heading: str, number: int) -> str:
    """One of the indented texts below a heading."""
    below = PAGE.partition(f"\n{heading}")[2]
    section = re.split(r"\n#", below, maxsplit=1)[0] + "\n"
    return re.sub("^    ", "", BLOCK.findall(section)[number], flags=re.MULTILINE)


@pytest.mark.parametrize(("name", "heading", "number", "file", "count"), FILES)
def test_a_file_that_is_shown_can_be_read(tmp_path, name, heading, number, file, count):
    (tmp_path / file).write_text(block(heading, number), encoding="utf-8")
    assert len(find_task(name).read(tmp_path / file, "train")) == count


def test_the_commands_for_one_file_work_as_they_are_shown(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in ("reviews.csv", "newer.csv", "unlabeled.csv"):
        TOYS["classify"].write(Path(file), 40, Rng(len(file)))
        text = Path(file).read_text(encoding="utf-8")
        Path(file).write_text(text.replace(",mood\n", ",sentiment\n"), encoding="utf-8")
    small = [f"--set={change}" for change in (*TOYS["classify"].shrink, "training.steps=2")]
    for line in block("## Your own data", 1).splitlines():
        words = shlex.split(line)[1:]
        found = run(*words, *([*small, "--elmo=none"] if words[0] == "train" else []))
        assert found.returncode == 0, found.stderr


def test_the_python_that_is_shown_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    TOYS["classify"].write(Path("reviews.csv"), 40, Rng(0))
    table = Path("reviews.csv").read_text(encoding="utf-8").replace(",mood\n", ",sentiment\n")
    Path("reviews.csv").write_text(table, encoding="utf-8")
    Path("texts.txt").write_text("so great\nso dull\n\n")
    small = [*TOYS["classify"].shrink, "training.steps=2"]
    monkeypatch.setattr(relmo, "train", partial(relmo.train, elmo=None, changes=small))
    found = {}
    exec(block("## From Python", 0), found)
    assert found["scores"].keys() >= {"dev_accuracy", "test_accuracy", "test_calibration_error"}
    assert isinstance(found["found"], relmo.Label)
    shown = capsys.readouterr().out.splitlines()
    assert [line.startswith("Label(") for line in shown[1:]] == [True, True, False] * 2


def test_texts_are_encoded_as_it_is_shown(tmp_path, monkeypatch, capsys, tiny):
    monkeypatch.chdir(tmp_path)
    tiny.save_pretrained("elmo")
    data = TOYS["encoder"].write_parts(Path("data"))
    wide = ["model.width=256", "training.steps=2"]
    train_toy("encoder", data, Path("runs/search"), "elmo", *wide)
    found = {}
    capsys.readouterr()
    exec(block("### `encoder`", 2), found)
    assert found["vectors"].shape == (2, 256)
    assert (found["query"].shape, found["short"].shape) == ((256,), (64,))
    assert len(capsys.readouterr().out.strip("[]\n").split()) == 2


@pytest.mark.parametrize("kind", ["Entity", "TaggedToken", "Label", "Answer", "Frame", "Cluster"])
def test_every_result_is_shown_with_its_fields(kind):
    names = ", ".join(field.name for field in fields(getattr(results, kind)))
    assert f"`{kind}({names})`" in PAGE


@pytest.mark.parametrize("name", sorted({*TASKS} - {"sst-phrases"}))
def test_predictions_say_what_json_calls_the_results(name):
    section = PAGE.partition("\n## Predictions\n")[2].partition("\n## ")[0]
    rows = [row.split("|") for row in section.splitlines() if row.startswith("|")]
    (called,) = (cells[3] for cells in rows if f"`{name}`" in cells[1])
    assert called.strip() == f"`{find_task(name).result_name}`"


def test_a_task_of_ones_own_defines_what_the_page_lists():
    shown = [block("## A task of your own", number) for number in range(3)]
    methods = [name for each in shown for name in re.findall(r"def (\w+)\(", each)]
    assert all(hasattr(LabelledTask, name) for name in methods)
    assert set(methods) >= LabelledTask.__abstractmethods__
    for name, value in re.findall(r"^(\w+) = (.*?) +#", shown[1], re.MULTILINE):
        assert getattr(LabelledTask, name) == literal_eval(value)


def test_a_task_of_ones_own_is_trained_as_it_is_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_registered", {})
    Path("data").mkdir()
    for part in ("train", "dev", "test"):
        Path("data", f"{part}.txt").write_text("good\twarm day\nbad\tcold day\n" * 4)
    Path("mood.toml").write_text("[training]\nepochs = 20\n[optimizer]\nlearning_rate = 0.05\n")
    monkeypatch.setattr(relmo, "train", partial(relmo.train, elmo=None))
    exec(block("## A task of your own", 3), {"MoodTask": MoodTask})
    assert capsys.readouterr().out == "good\n"


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_its_row(name):
    assert f"\n| `{name}` |" in PAGE


@pytest.mark.parametrize("field", fields(InputSettings), ids=lambda field: field.name)
def test_every_setting_of_the_input_is_explained(field):
    rows = [row for row in PAGE.splitlines() if row.startswith("|")]
    assert any(f"`{field.name}`" in row.split("|")[1] for row in rows)
