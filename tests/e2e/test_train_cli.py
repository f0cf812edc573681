"""relmo train, evaluate and predict as a script sees them, and training without typer and rich."""

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys

import pytest

import relmo
from relmo import Elmo, progress
from relmo.cli.main import main
from relmo.tasks.labelled import LabelledTask
from relmo.tasks.registry import find_task
from relmo.tasks.run import load_task_recipe, train_task
from relmo.training.recipe import known_recipes
from relmo.training.run import Run, read_record
from relmo.training.trainer import Trainer
from tests.conftest import tiny_config
from tests.support.toy_lm import metrics
from tests.support.toy_tasks import TOYS, toy_recipe

SMALL = [f"--set={change}" for change in (*TOYS["ner"].shrink, "training.epochs=8")]
TEXT = "the ada inc in rome\n\nthis film . naïve 😀 bob in oslo\n"


@pytest.fixture(scope="module")
def elmo_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elmo")
    Elmo.untrained(tiny_config(), seed=1).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return TOYS["ner"].write_parts(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory, data, elmo_folder):
    """A run with ELMo that has learned something."""
    output = tmp_path_factory.mktemp("runs") / "ner"
    recipe = toy_recipe("ner", "training.epochs=16")
    train_task("ner", recipe, data, output, elmo=elmo_folder, device="cpu")
    return output


def objects(found):
    return [json.loads(line) for line in found.stdout.decode().splitlines()]


# ── train ───────────────────────────────────────────────────────────────────────────────────


def test_train_reports_scores_and_the_run(run, data, elmo_folder, tmp_path):
    found = run("train", "ner", "--data", data, "--output", tmp_path / "run", "--elmo", elmo_folder,
                *SMALL, "--set=training.log_every=5")  # fmt: skip
    assert found.returncode == 0, found.stderr
    shown = dict(line.split("  ", 1) for line in found.stdout.decode().splitlines())
    record = read_record(tmp_path / "run" / "run.json")
    test_f1 = record["results"]["test_f1"]
    assert shown["test F1"].strip() == f"{test_f1:.2f} %"
    assert test_f1 > 50
    assert shown["run"].strip() == str(tmp_path / "run")
    assert shown["next"].strip() == f"relmo predict {tmp_path / 'run'} FILE"
    first, *rest = found.stderr.decode().splitlines()
    assert first == "relmo: no static vectors given: word vectors are trained from scratch"
    assert any(line.startswith("relmo: step 5,") and ", loss " in line for line in rest)
    assert any("dev F1" in line for line in rest)


def test_train_with_json_writes_lines_and_last_the_scores(run, data, tmp_path):
    (tmp_path / "v.txt").write_text("ada 1 2\nin 3 4\n")
    found = run("train", "ner", "--data", data, "--output", tmp_path / "run", "--elmo", "none",
                "--vectors", tmp_path / "v.txt", *SMALL, "--set=training.epochs=1",
                "--json")  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert found.stderr == f"relmo: {data.name}: 40 train, 12 dev, 12 test sentences\n".encode()
    *lines, last = objects(found)
    assert {"step", "dev_f1"} <= lines[-1].keys()
    assert last["run"] == str(tmp_path / "run")
    assert last["dev_f1"] == read_record(tmp_path / "run" / "run.json")["results"]["dev_f1"]


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (["nerd"], "unknown task 'nerd'; did you mean 'ner'?"),
        (["ner", "--set=model.dropuot=1"], "unknown key 'dropuot'; did you mean 'dropout'?"),
        (["ner", "--recipe=gone"], "no recipe 'gone'"),
        (["ner", "--elmo=gone"], "gone"),
        (["ner", "--vectors=gone.txt"], "gone.txt: no such file"),
        (["ner", "--data=gone"], "gone: no such file or folder"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(run, data, tmp_path, args, what):
    rest = ["--elmo=none"] * (not any("--elmo" in arg for arg in args))
    found = run("train", "--data", data, "--output", tmp_path / "run", *rest, *args)
    assert found.returncode == 2
    assert what in found.stderr.decode().splitlines()[-1]
    assert found.stderr.decode().splitlines()[-1].startswith("relmo: ")
    assert found.stdout == b""
    assert not (tmp_path / "run").exists()


def test_a_bad_row_is_named_and_exit_code_1(run, tmp_path):
    data = TOYS["ner"].write_parts(tmp_path / "data")
    with (data / "dev.txt").open("a") as file:
        file.write("\nada B-PER extra\n")
    found = run("train", "ner", "--data", data, "--output", tmp_path / "run", "--elmo", "none")
    assert found.returncode == 1
    assert b"dev.txt, line " in found.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_says_what_is_safe_and_how_to_go_on(
    run, data, tmp_path, monkeypatch, number, code
):
    train_step = Trainer._train_step

    def with_signal(trainer, progress):
        if trainer.step == 4:
            signal.raise_signal(number)
        return train_step(trainer, progress)

    options = ["--data", data, "--elmo", "none", *SMALL, "--set=training.epochs=2"]
    assert run("train", "ner", "--output", tmp_path / "whole", *options).returncode == 0
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_train_step", with_signal)
        found = run("train", "ner", "--output", tmp_path / "run", *options)
    assert found.returncode == code, found.stderr
    said, command = found.stderr.decode().strip().splitlines()[-1].split(". Continue with: relmo ")
    assert said.startswith("relmo: interrupted at step 5; everything up to step 5 is saved in ")
    again = run(*shlex.split(command))
    assert again.returncode == 0, again.stderr
    assert metrics(tmp_path / "run") == metrics(tmp_path / "whole")


@pytest.mark.parametrize(
    "where", [(Trainer, "_log"), (LabelledTask, "calibrate"), (LabelledTask, "calibration_error")]
)
def test_after_the_first_evaluation_an_interrupted_run_can_be_used_and_finished(
    run, data, tmp_path, monkeypatch, where
):
    def interrupt(*_):
        signal.raise_signal(signal.SIGINT)

    options = ["--data", data, "--elmo", "none", *SMALL, "--set=training.steps=8",
               "--set=training.log_every=7", "--output", tmp_path / "run"]  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(*where, interrupt)
        found = run("train", "ner", *options)
    assert found.returncode == 130, found.stderr
    said, command = found.stderr.decode().strip().splitlines()[-1].split(". Continue with: relmo ")
    step = Run(tmp_path / "run").read_best().step
    assert (
        f"; relmo predict {tmp_path / 'run'} uses the best weights so far, of step {step}" in said
    )
    assert run("predict", tmp_path / "run", stdin=TEXT.encode()).returncode == 0
    assert len(relmo.load(tmp_path / "run")(["ada in rome", "bob"])) == 2
    again = run(*shlex.split(command))
    assert again.returncode == 0, again.stderr
    assert "test_f1" in read_record(tmp_path / "run" / "run.json")["results"]


def test_a_run_that_never_began_is_not_resumed(run, data, tmp_path):
    found = run("train", "ner", "--data", data, "--output", tmp_path / "run", "--resume", *SMALL)
    assert found.returncode == 2
    assert b"run has no checkpoint to resume from" in found.stderr


@pytest.mark.parametrize("recipe", known_recipes("tasks"))
def test_every_recipe_makes_checkpoints(recipe):
    task = {"emotion": "multilabel"}.get(recipe, recipe.split("-")[0])
    training = load_task_recipe(task, recipe).training
    assert training.checkpoint_minutes > 0


def test_every_part_of_training_shows_its_progress(run, data, elmo_folder, tmp_path, monkeypatch):
    shown, begin = [], progress._display.begin

    def note_and_begin(work):
        shown.append(work.what)
        begin(work)

    monkeypatch.setattr(progress._display, "begin", note_and_begin)
    options = ["--data", data, "--elmo", elmo_folder, *SMALL, "--set=training.epochs=1"]
    found = run("train", "ner", "--output", tmp_path / "run", *options)
    assert found.returncode == 0, found.stderr
    for what in (
        "loading PyTorch",
        "reading data",
        "loading ELMo",
        "reading word vectors",
        "tokens read by ELMo",
        "storing ELMo's layers: tokens",
        "training steps",
        "evaluating: dev sentences",
        "calibrating: temperatures tried",
        "scoring the test set: sentences",
    ):
        assert what in shown


def test_a_finished_run_is_not_written_over(run, data, run_folder):
    found = run("train", "ner", "--data", data, "--output", run_folder, "--elmo", "none")
    assert found.returncode == 2
    assert b"contains a finished run; choose another folder" in found.stderr


# ── one file of one's own ───────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """A table with columns of its own, a row without a label and one without a text."""
    path = tmp_path_factory.mktemp("own") / "reviews.csv"
    TOYS["classify"].write(path, 80, random.Random(0))
    rows = path.read_text(encoding="utf-8").replace("id,review,mood", "key,what they say,feeling")
    path.write_text(f"{rows}80,nice,\n81,,mood 4\n", encoding="utf-8")
    return path


@pytest.fixture
def own_run(run, reviews, tmp_path):
    """A run on that file at the first try, and what was said."""
    small = [f"--set={change}" for change in (*TOYS["classify"].shrink, "training.epochs=1")]
    found = run("train", "classify", "--data", reviews, "--text", "what they say", "--label",
                "feeling", "--output", tmp_path / "run", "--elmo=none", *small)  # fmt: skip
    assert found.returncode == 0, found.stderr
    return tmp_path / "run", found.stderr.decode()


shows_warnings = pytest.mark.filterwarnings("default::relmo.errors.TextWarning")


@shows_warnings
def test_one_file_is_split_aloud_and_learned_at_the_first_try(own_run):
    folder, said = own_run
    split = "reviews.csv: 80 texts split 65/8/7 by seed 0; give --data a folder with train, dev and"
    assert split in said
    assert "2 rows without 'what they say' or 'feeling' skipped: line 82, line 83" in said
    data = read_record(folder / "run.json")["data"]
    assert data["columns"] == {"text": "what they say", "label": "feeling"}
    assert data["split"]["seed"] == 0


@shows_warnings
def test_evaluate_and_predict_remember_the_columns(run, own_run, reviews, tmp_path):
    folder, _ = own_run
    results = read_record(folder / "run.json")["results"]
    with_its_own = run("evaluate", folder, "--data", reviews, "--json")
    assert objects(with_its_own)[0]["accuracy"] == pytest.approx(results["test_accuracy"])
    assert b"scored are the 7 texts of its test part" in with_its_own.stderr

    other = tmp_path / "other.tsv"
    other.write_text("what they say\tremark\nso great\tso dull\n\tno text\nnot fine\t-\n")
    by_default = run("predict", folder, other, "--json")
    assert by_default.returncode == 0, by_default.stderr
    assert [(each["line"], each["text"]) for each in objects(by_default)] == [
        (1, "so great"),
        (3, "not fine"),
    ]
    assert b"1 row without 'what they say' skipped: line 3" in by_default.stderr
    by_choice = run("predict", folder, other, "--text", "remark", "--json")
    assert objects(by_choice)[0]["text"] == "so dull"


@shows_warnings
def test_a_model_of_a_table_answers_for_plain_text(run, own_run, tmp_path):
    folder, _ = own_run
    text = "a good film\n\na bad film\n"
    typed = run("predict", folder, "--json", stdin=text.encode())
    assert typed.returncode == 0, typed.stderr
    assert [answer["line"] for answer in objects(typed)] == [1, 3]
    lines = run("predict", folder, stdin=f"\n{text} \n\n".encode()).stdout.decode().split("\n")
    assert [bool(line) for line in lines] == [False, True, False, True, False, False, False]
    (tmp_path / "texts.txt").write_text(text)
    assert run("predict", folder, tmp_path / "texts.txt", "--json").stdout == typed.stdout
    refused = run("predict", folder, "--text", "remark", stdin=text.encode())
    assert refused.returncode == 2
    assert b"--text names a column of a table, but standard input is plain text" in refused.stderr


def test_several_labels_are_learned_scored_and_predicted_by_the_commands(run, tmp_path):
    path, folder = tmp_path / "own.csv", tmp_path / "run"
    TOYS["multilabel"].write(tmp_path / "rows.jsonl", 80, random.Random(0))
    rows = map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines())
    cells = [f'{row["text"]},"{row["labels"] or "[]"}"' for row in rows]
    path.write_text("\n".join(["said,about", *cells]))
    small = [f"--set={change}" for change in (*TOYS["multilabel"].shrink, "training.epochs=8")]
    found = run("train", "multilabel", "--data", path, "--text", "said", "--label", "about",
                "--output", folder, "--recipe=multilabel", "--elmo=none", *small)  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert b"test macro F1" in found.stdout

    results = read_record(folder / "run.json")["results"]
    scored = objects(run("evaluate", folder, "--data", path, "--json"))[0]
    assert scored["macro_f1"] == pytest.approx(results["test_macro_f1"])
    assert scored["calibration_error"] == pytest.approx(results["test_calibration_error"])

    typed = "ada great rome\n\nthis film\n"
    (first, second) = objects(run("predict", folder, "--json", stdin=typed.encode()))
    assert {each["label"] for each in first["labels"]} <= {"person", "place", "praise"}
    assert first["labels"]
    assert (second["line"], second["text"]) == (3, "this film")
    lines = run("predict", folder, stdin=typed.encode()).stdout.decode().splitlines()
    assert lines[0].endswith("\tada great rome")


def test_columns_that_cannot_be_guessed_are_asked_for(run, reviews, tmp_path):
    found = run("train", "classify", "--data", reviews, "--output", tmp_path / "run")
    assert found.returncode == 2
    what = "cannot tell which column is the text or the label; found 'key', 'what they say', 'feel"
    assert what in found.stderr.decode()
    assert b"give --text COLUMN and --label COLUMN" in found.stderr
    assert not (tmp_path / "run").exists()


def test_entities_of_one_file_are_learned(run, tmp_path):
    TOYS["ner"].write(tmp_path / "mine.conll", 40, random.Random(0))
    found = run("train", "ner", "--data", tmp_path / "mine.conll", "--output", tmp_path / "run",
                "--elmo=none", *SMALL, "--set=training.epochs=1")  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert b"sentences split" in found.stderr


# ── evaluate ────────────────────────────────────────────────────────────────────────────────


def test_evaluate_gives_the_record_s_scores(run, data, run_folder):
    found = run("evaluate", run_folder, "--data", data / "test.txt", "--json")
    assert found.returncode == 0, found.stderr
    results = read_record(run_folder / "run.json")["results"]
    scores = objects(found)[0]
    error = scores.pop("calibration_error")  # the run's own layers came from a float16 cache
    assert error == pytest.approx(results["test_calibration_error"], abs=1e-4)
    assert scores == pytest.approx({k: results[f"test_{k}"] for k in scores})
    assert scores["f1"] > 50


def test_evaluate_counts_an_unseen_label_as_wrong(run, run_folder, tmp_path):
    (tmp_path / "odd.txt").write_text("zeus B-GOD\nin O\n")
    found = run("evaluate", run_folder, "--data", tmp_path / "odd.txt")
    assert found.returncode == 0, found.stderr
    shown = dict(line.split(None, 1) for line in found.stdout.decode().splitlines())
    assert (shown["examples"], shown["F1"]) == ("1", "0.00 %")
    assert b"1 of 1 labels are none of the model's" in found.stderr
    assert b"GOD; the model knows LOC, ORG" in found.stderr


def test_evaluate_names_a_tag_that_marks_no_entity(run, run_folder, tmp_path):
    (tmp_path / "odd.txt").write_text("in O\nzeus NN\n")
    found = run("evaluate", run_folder, "--data", tmp_path / "odd.txt")
    assert (found.returncode, found.stdout) == (1, b"")
    assert b"odd.txt, line 2: 'NN' is not a chunk tag" in found.stderr


def test_evaluate_shows_errors_by_kind_and_writes_all_of_them(run, run_folder, tmp_path):
    odd, table = tmp_path / "odd.txt", tmp_path / "errors.tsv"
    odd.write_text("the O\nada B-PER\nin O\nrome B-GOD\n\nit B-ODD\nin O\nrome B-LOC\n")
    args = ["evaluate", run_folder, "--data", odd, "--errors", "--errors-to", table]
    found = run(*args)
    assert found.returncode == 0, found.stderr
    scores, counts, examples = found.stdout.decode().split("\n\n")
    assert "errors" in scores
    label, *kinds = counts.splitlines()[0].split("  ")
    assert label == "label"
    assert [kind.strip() for kind in kinds if kind] == [
        "gold", "missed", "spurious", "wrong label", "wrong extent"
    ]  # fmt: skip
    assert any("[GOD rome]" in line and "[LOC rome]" in line for line in examples.splitlines())

    whole = objects(run(*args[:-2], "--json"))[0]["errors"]
    assert [(row["label"], row["gold"]) for row in whole["by_label"]][:2] == [
        ("GOD", 1),
        ("LOC", 1),
    ]
    assert {"kind", "gold", "predicted", "score", "text"} <= whole["examples"][0].keys()
    assert len(table.read_text().splitlines()) == whole["count"] + 1
    none = objects(run("evaluate", run_folder, "--data", odd, "--errors=0", "--json"))[0]["errors"]
    assert (none["count"], none["examples"]) == (whole["count"], [])


def test_a_table_of_errors_that_cannot_be_written_is_refused_first(run, data, run_folder, tmp_path):
    args = ["evaluate", run_folder, "--data", data / "test.txt", "--errors-to"]
    found = run(*args, tmp_path / "errors.doc")
    assert (found.returncode, found.stdout) == (2, b"")
    assert b"the output must end in .tsv, .csv, .jsonl, .parquet" in found.stderr
    for suffix in ("csv", "jsonl", "parquet"):
        assert run(*args, tmp_path / f"errors.{suffix}").returncode == 0
        assert (tmp_path / f"errors.{suffix}").exists()


def test_evaluate_needs_a_run_a_file_and_the_run_s_elmo(run, data, run_folder, tmp_path):
    for args, what in (
        ((tmp_path, "--data", data / "test.txt"), b"is not the folder of a task's run"),
        ((run_folder, "--data", tmp_path / "gone.txt"), b"gone.txt: no such file"),
        ((run_folder, "--data", data), b"is a folder; expected one file in the task's format"),
        ((run_folder, "--data", data / "test.txt", "--elmo", "gone"), b"needs tiny"),
    ):
        found = run("evaluate", *args)
        assert (found.returncode, found.stdout) == (2, b"")
        assert what in found.stderr


# ── predict ─────────────────────────────────────────────────────────────────────────────────


def test_predict_marks_names_in_a_file_and_in_standard_input(run, run_folder, tmp_path):
    (tmp_path / "in.txt").write_text(TEXT, encoding="utf-8")
    from_file = run("predict", run_folder, tmp_path / "in.txt")
    assert from_file.returncode == 0, from_file.stderr
    assert "[ORG ada inc] in [LOC rome]" in from_file.stdout.decode()
    assert run("predict", run_folder, stdin=TEXT.encode()).stdout == from_file.stdout
    assert run("predict", run_folder, "-", stdin=TEXT.encode()).stdout == from_file.stdout


def test_predict_and_evaluate_say_that_a_run_is_unfinished(run, data, run_folder, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder, ignore=shutil.ignore_patterns("run.json"))
    step = read_record(run_folder / "run.json")["best_step"]
    said = f"relmo: {folder} is unfinished (best weights so far, of step {step}, are used); "
    said += "continue with relmo train … --resume\n"
    assert run("predict", folder, stdin=TEXT.encode()).stderr.decode() == said
    assert run("evaluate", folder, "--data", data / "test.txt").stderr.decode() == said
    assert run("predict", run_folder, stdin=TEXT.encode()).stderr == b""


def test_predict_gives_a_json_object_per_line(run, run_folder, elmo_folder):
    found = run("predict", run_folder, "--json", "--elmo", elmo_folder, stdin=TEXT.encode())
    first, *_, last = objects(found)
    assert first["text"] == TEXT.split("\n")[0]
    entity = first["entities"][0]
    assert 0.5 < entity.pop("score") <= 1
    assert entity == {"text": "ada inc", "label": "ORG", "start": 4, "end": 11}
    assert "😀" in last["text"]
    assert (first["line"], last["line"]) == (1, 3)
    assert "😀".encode() in found.stdout


def test_predict_reads_in_another_precision_if_asked(run, run_folder):
    found = run("predict", run_folder, "--precision", "int8", stdin=TEXT.encode())
    assert found.returncode == 0, found.stderr
    assert "[ORG ada inc] in [LOC rome]" in found.stdout.decode()
    found = run("predict", run_folder, "--precision", "int4", stdin=TEXT.encode())
    assert found.returncode == 2
    assert b"unknown precision 'int4'; choose float32, bfloat16, int8, auto" in found.stderr


def test_who_types_is_answered_line_by_line(run_folder, monkeypatch, capfdbinary):
    answers = []

    class Terminal:
        def isatty(self):
            return True

        @property
        def buffer(self):
            yield b"the ada inc in rome\n"
            answers.append(capfdbinary.readouterr().out)  # before the next line is asked for
            yield b"bob in oslo\n"

    monkeypatch.setattr(sys, "stdin", Terminal())
    with pytest.raises(SystemExit):
        main(["predict", str(run_folder)])
    answers.append(capfdbinary.readouterr().out)
    assert answers[0] == b"the [ORG ada inc] in [LOC rome]\n"
    assert answers[1].count(b"\n") == 1


def test_predict_of_nothing_is_nothing(run, run_folder):
    for args, answer in (["--json"], b""), ([], b"\n\n"):  # an empty line for a blank one
        found = run("predict", run_folder, *args, stdin=b"\n \n")
        assert (found.returncode, found.stdout, found.stderr) == (0, answer, b"")


def test_predict_names_what_it_cannot_read(run, run_folder, tmp_path):
    found = run("predict", run_folder, tmp_path / "gone.txt")
    assert found.returncode == 2
    assert b"no such file; expected a text file, or - for standard input" in found.stderr
    found = run("predict", run_folder, "Ada left.")
    assert b"to read a text itself: echo 'Ada left.' | relmo predict" in found.stderr
    found = run("predict", run_folder, stdin=b"ok\n\xff\0\n")
    assert b"standard input, line 2: it looks like a binary file" in found.stderr
    found = run("predict", run_folder, stdin=b"ok\n\xff\n")
    assert found.returncode == 1
    assert b"standard input, line 2: not UTF-8" in found.stderr
    assert b"--errors" not in found.stderr  # which other commands have
    found = run("predict", run_folder, tmp_path)
    assert found.returncode == 2
    assert b"is a folder; expected a text file, or - for standard input" in found.stderr


def test_tagging_tasks_say_what_they_read_and_predict_from_a_column_of_csv(
    run, run_folder, tmp_path
):
    (tmp_path / "my.csv").write_text("id,film,day\n1,the ada inc in rome,2020-01-01\n2,in oslo,x\n")
    wrong = run("train", "ner", "--data", tmp_path / "my.csv", "--output", tmp_path / "run")
    assert wrong.returncode == 1
    assert b"expected a word and its tag in every line" in wrong.stderr
    found = run("predict", run_folder, tmp_path / "my.csv", "--text", "film")
    assert found.stdout.splitlines()[0] == b"the [ORG ada inc] in [LOC rome]"
    assert found.stdout.count(b"\n") == 2
    found = run("predict", run_folder, tmp_path / "my.csv")
    assert found.returncode == 2
    assert b"cannot tell which column is the text; found 'id', 'film', 'day'" in found.stderr


SQUAD = {
    "data": [
        {"title": t, "paragraphs": [{"context": f"{n} lives in {p} .", "qas": [
            {"id": f"{t}{n}", "question": f"where does {n} live ?",
             "answers": [{"text": p, "answer_start": len(f"{n} lives in ")}]}]}]}
        for t, n, p in (("a", "ada", "rome"), ("b", "bob", "oslo"), ("c", "cy", "lima"))
    ]
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "keys"),
    [
        (
            "squad",
            "where does ada live ?\tada lives in rome .",
            {"line", "question", "text", "answer"},
        ),
        ("srl", "dog saw the cat", {"text", "frames"}),
        ("coref", "ada saw bob .\nbob met old ada .", {"text", "clusters"}),
    ],
)
def test_other_tasks_answer_for_plain_text(run, tmp_path, name, text, keys):
    small = ["training.steps=1", "batch.size=2", "model.cell_width=8", "model.hidden_width=8"]
    known = find_task(name).settings_type.__dataclass_fields__
    changes = [
        c for c in small if c.partition(".")[2].partition("=")[0] in known or "model" not in c
    ]
    data = tmp_path / "data"
    data.mkdir()
    for part in ("train", "dev", "test"):
        if name == "squad":
            (data / f"{part}.json").write_text(json.dumps(SQUAD))
        else:
            TOYS[name].write(data / f"{part}.conll", 6, random.Random(0))
    args = ["--data", data, "--output", tmp_path / "run", "--elmo", "none"]
    found = run("train", name, *args, *[f"--set={change}" for change in changes])
    assert found.returncode == 0, found.stderr
    found = run("predict", tmp_path / "run", "--json", stdin=f"{text}\n".encode())
    assert found.returncode == 0, found.stderr
    assert keys <= objects(found)[0].keys()
    readable = run("predict", tmp_path / "run", stdin=f"{text}\n".encode())
    assert readable.returncode == 0
    assert readable.stdout.strip()


# ── without typer and rich ──────────────────────────────────────────────────────────────────

BARE = """
import sys
for name in ("typer", "rich", "pyarrow", "tensorboard", "matplotlib"):
    sys.modules[name] = None  # importing it fails
from pathlib import Path
from relmo.tasks.run import load_task_recipe, train_task
data, elmo, output, *changes = sys.argv[1:]
train_task("ner", load_task_recipe("ner", None, changes), Path(data), Path(output), elmo=elmo)
"""


def test_training_needs_torch_numpy_safetensors_and_h5py_alone(data, elmo_folder, tmp_path):
    args = [data, elmo_folder, tmp_path / "run", *TOYS["ner"].shrink, "training.steps=1"]
    command = [sys.executable, "-c", BARE, *map(str, args)]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=one_thread)
    assert found.returncode == 0, found.stderr
    assert "test_f1" in read_record(tmp_path / "run" / "run.json")["results"]
    assert len(list((tmp_path / "run" / "cache").iterdir())) == 1
