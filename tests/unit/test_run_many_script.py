"""Many runs in parallel: what a list means, resuming, and collections of records."""

import importlib.util
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from relmo.lab.reports.records import read_runs
from relmo.tasks.run import load_task_recipe
from tests.support.toy_runs import Runs
from tests.support.toy_tasks import TAGGER, TOYS

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("run_many", ROOT / "scripts" / "run_many.py")
script = importlib.util.module_from_spec(spec)
sys.modules["run_many"] = script
spec.loader.exec_module(script)

LIST = """
[[runs]]
task = "ner"
data = "toy"
models = ["none", "relmo-en-base"]
seeds = [0, 1]
set = ["training.epochs=1"]
vary = ["input.place=both", "batch.share=0.5"]
"""


def write(tmp_path, text):
    path = tmp_path / "list.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_list_is_all_combinations_the_first_seed_first(tmp_path):
    runs = script.read_runs(write(tmp_path, LIST), {"relmo-en-base": "some/folder"})
    assert [run.name for run in runs] == [
        "ner-none-training.epochs-1-input.place-both-0",
        "ner-base-training.epochs-1-input.place-both-0",
        "ner-none-training.epochs-1-batch.share-0.5-0",
        "ner-base-training.epochs-1-batch.share-0.5-0",
        "ner-none-training.epochs-1-input.place-both-1",
        "ner-base-training.epochs-1-input.place-both-1",
        "ner-none-training.epochs-1-batch.share-0.5-1",
        "ner-base-training.epochs-1-batch.share-0.5-1",
    ]
    assert runs[1].model == "some/folder"
    assert runs[1].changes == ("training.seed=0", "training.epochs=1", "input.place=both")


def test_an_entry_may_have_a_recipe_and_leave_out_the_vectors(tmp_path):
    own, other = LIST, LIST.replace('data = "toy"', 'data = "other"\nname = "x"')
    other += 'recipe = "ner-open"\nvectors = false\n'
    runs = script.read_runs(write(tmp_path, own + other), {})
    options = Namespace(data=Path("d"), output=Path("o"), cache=None, vectors=Path("glove.txt"))
    with_vectors, without = (runs[n].command(options) for n in (0, 8))
    assert with_vectors[with_vectors.index("--vectors") + 1] == "glove.txt"
    assert "--recipe" not in with_vectors
    assert "--vectors" not in without
    assert without[without.index("--recipe") + 1] == "ner-open"


def test_the_first_seed_of_all_runs_can_come_first(tmp_path, monkeypatch, capsys):
    second = LIST.replace("[0, 1]", "[0]").replace('"ner"', '"sst"').replace('"none", ', "")
    path = write(tmp_path, LIST + second)
    command = ["run_many", str(path), "--data", "x", "--output", "y", "--by-seed", "--list"]
    monkeypatch.setattr(sys, "argv", command)
    script.main()
    names = capsys.readouterr().out.split()
    assert [name[-1] for name in names] == list("0000001111")
    assert [name.partition("-")[0] for name in names] == ["ner"] * 4 + ["sst"] * 2 + ["ner"] * 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("seeds", "seed"), "entry 1 has the keys"),
        (
            ("[0, 1]", "[0, 0]"),
            "entry 1 repeats the run ner-none-training.epochs-1-input.place-both-0",
        ),
    ],
)
def test_a_slip_in_a_list_is_named(tmp_path, change, message):
    with pytest.raises(SystemExit, match=message):
        script.read_runs(write(tmp_path, LIST.replace(*change)), {})


@pytest.mark.parametrize("name", ["tasks", "trials", "open_tasks"])
def test_every_run_of_our_own_lists_has_a_recipe_that_can_be_read(name):
    for run in script.read_runs(ROOT / "experiments" / f"{name}.toml", {}):
        load_task_recipe(run.task, run.recipe or None, run.changes)


def test_runs_end_and_are_not_begun_again(tmp_path, capsys):
    TOYS["ner"].write_parts(tmp_path / "toy", 8, 4)
    changes = [*TAGGER, "training.epochs=1"]
    runs = [
        script.Run(f"run-{seed}", "ner", "toy", "none", seed, (f"training.seed={seed}", *changes))
        for seed in (0, 1)
    ]
    output = tmp_path / "runs"
    output.mkdir()
    options = Namespace(
        data=tmp_path,
        output=output,
        cache=None,
        vectors=None,
        slots=2,
        seconds=0.0,
        collection=None,
    )
    script.train_all(runs, options)
    assert capsys.readouterr().out.count("not finished: run-") == 2
    options.seconds = 120.0
    script.train_all(runs, options)
    out = capsys.readouterr().out
    assert out.count("exit 0") == 2, out
    assert "test_f1" in out
    script.train_all(runs, options)
    assert capsys.readouterr().out == "2 of 2 runs are finished\n"


def test_records_are_appended_to_a_collection_once_and_count_as_finished(
    tmp_path, monkeypatch, capsys
):
    runs, path = Runs(tmp_path / "runs"), tmp_path / "study.jsonl"
    runs.task("b", 80.0)
    runs.task("a", 81.0, seed=1)
    command = ["run_many", "--output", str(runs.folder), "--collection", str(path)]
    monkeypatch.setattr(sys, "argv", command)
    script.main()
    runs.task("c", 82.0, seed=2)
    script.main()
    assert capsys.readouterr().out.split("\n")[:2] == [
        f"records appended to {path}: 2", f"records appended to {path}: 1",
    ]  # fmt: skip
    assert [run.name for run in read_runs(tmp_path)] == ["a", "b", "c"]
    assert script.read_collection(path) == {"a", "b", "c"}
    options = Namespace(output=tmp_path / "none", slots=1, seconds=60.0, collection=path)
    script.train_all([script.Run("a", "ner", "toy", "none", 1, ())], options)
    assert capsys.readouterr().out == "1 of 1 runs are finished\n"
