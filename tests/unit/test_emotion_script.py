"""scripts/emotion_data.py: GoEmotions' files -> tables of texts and lists of labels."""

import json
import runpy
from pathlib import Path

import pytest

from relmo.tasks.registry import read_parts

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "emotion_data.py"))


@pytest.fixture
def folder(tmp_path):
    for part in ("train", "dev", "test"):
        (tmp_path / f"{part}.tsv").write_text(f"Oh, naïve \U0001f600!\t1,0\t{part}1\nNo. \t2\tx\n")
    (tmp_path / "labels.txt").write_text("fear\njoy\nneutral")
    return tmp_path


def test_texts_get_the_names_of_their_labels(folder, capsys):
    SCRIPT["main"]([str(folder), str(folder / "out")])
    assert capsys.readouterr().out == f"2/2/2 texts in {folder / 'out'}\n"
    lines = (folder / "out" / "dev.jsonl").read_text(encoding="utf-8").splitlines()
    assert list(map(json.loads, lines)) == [
        {"text": "Oh, naïve \U0001f600!", "labels": ["joy", "fear"]},
        {"text": "No.", "labels": ["neutral"]},
    ]
    found = read_parts("multilabel", folder / "out")
    assert [example.labels for example in found["test"]] == [("fear", "joy"), ("neutral",)]


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("dev.tsv", "a\t0\tx\na\t3\tx\n", r"dev.tsv, line 2: label '3'; expected .* 0 to 2"),
        ("dev.tsv", "a\t\tx\n", "dev.tsv, line 1: label ''"),
        ("dev.tsv", "a\t0\n", "dev.tsv, line 1: expected text, labels and id, got 2 cells"),
        ("test.tsv", None, "test.tsv: cannot be read: no such file"),
        ("labels.txt", None, "has none of labels.txt, emotions.txt"),
    ],
)
def test_what_is_not_goemotions_is_named_and_nothing_is_written(folder, name, text, what):
    (folder / name).unlink()
    if text is not None:
        (folder / name).write_text(text)
    with pytest.raises(SystemExit, match=what):
        SCRIPT["main"]([str(folder), str(folder / "out")])
    assert not (folder / "out").exists()
