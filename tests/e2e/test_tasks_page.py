"""The page on tasks: its files can be read, its tables are complete."""

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from relmo.tasks.inputs import InputSettings
from relmo.tasks.registry import TASKS, find_task
from tests.support.toy_tasks import TOYS, Rng

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


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_its_row(name):
    assert f"\n| `{name}` |" in PAGE


@pytest.mark.parametrize("field", fields(InputSettings), ids=lambda field: field.name)
def test_every_setting_of_the_input_is_explained(field):
    rows = [row for row in PAGE.splitlines() if row.startswith("|")]
    assert any(f"`{field.name}`" in row.split("|")[1] for row in rows)
