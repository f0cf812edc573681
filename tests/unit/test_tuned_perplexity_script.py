"""scripts/tuned_perplexity.py: a model that is tuned on a task's text predicts it better."""

import runpy
from pathlib import Path

import pytest

from relmo.elmo import Elmo
from relmo.tasks.registry import read_parts
from relmo.training.run import read_record
from tests.support.toy_lm import Corpus, Grammar, toy_recipe
from tests.support.toy_tasks import TOYS

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "tuned_perplexity.py"))
SMALL = ["lm.rows=4", "lm.window=4", "optimizer.learning_rate=0.02", "training.epochs=3"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lm")
    words = ["in", "Rome", "Ada", "lives", "."]
    Corpus(folder, Grammar(3, words), 60).train(toy_recipe(), folder / "run")
    return folder / "run" / "model"


def test_text_is_predicted_better_after_tuning(model, tmp_path, capsys):
    TOYS["ner"].write_parts(tmp_path / "ner", 60, 10)
    changes = [part for change in SMALL for part in ("--set", change)]
    SCRIPT["main"]([
        "--model", str(model), "--data", str(tmp_path), "--tasks", "ner", "--device", "cpu",
        "--output", str(tmp_path / "out"), "--max-tokens", "50", *changes,
        "--keep", str(tmp_path / "kept"),
    ])  # fmt: skip
    record = read_record(tmp_path / "out" / "run.json")
    found = record["results"]
    assert found["ner_after"] < found["ner_before"]
    assert f"ner {found['ner_before']:.1f} -> {found['ner_after']:.1f}" in capsys.readouterr().out
    assert record["data"]["ner"]["files"]["train"]["sha256"]
    kept = Elmo.from_pretrained(tmp_path / "kept" / "ner")
    assert kept.config.name == f"{record['elmo']['name']}-ner"
    assert kept.lm is not None
    assert str(tmp_path) not in (tmp_path / "out" / "run.json").read_text()


def test_sentences_of_training_are_not_tested_on(tmp_path):
    TOYS["ner"].write_parts(tmp_path / "ner", 40, 40)
    train, test = SCRIPT["sentences_of"]("ner", read_parts("ner", tmp_path / "ner"))
    assert set(train).isdisjoint(test)
    assert len(set(train)) == len(train)


def test_a_folder_that_is_not_there_is_named(model, tmp_path):
    with pytest.raises(SystemExit, match="no such file or folder"):
        SCRIPT["main"]([
            "--model", str(model), "--data", str(tmp_path), "--tasks", "ner",
            "--output", str(tmp_path / "out"),
        ])  # fmt: skip
