"""relmo pretrain and relmo perplexity as a script sees them."""

import gzip
import json
import lzma
import math
import os
import random
import shlex
import signal

import pytest

from relmo import Elmo
from relmo.cli.main import main
from relmo.files import locked_folder
from relmo.tasks.lm.settings import load_recipe
from relmo.training.run import read_record
from relmo.training.trainer import Trainer
from tests.conftest import tiny_config
from tests.support.toy_lm import metrics

SMALL = [
    "--set", "model.char_cnn.width=8", "--set", "model.char_cnn.filters=[[1, 4], [2, 8]]",
    "--set", "model.lstm.cell_width=12", "--set", "model.lstm.output_width=8",
    "--set", "lm.rows=4", "--set", "lm.window=4", "--set", "data.held_out=0.1",
    "--set", "training.log_every=2",
]  # fmt: skip
STEPS = ["--set", "training.steps=4"]


def toy_text(documents=30, seed=0) -> str:
    """Documents of a few sentences each, a blank line between them."""
    rng = random.Random(seed)
    nouns, verbs = ["dog", "cat", "bird"], ["sees", "hears"]

    def sentence() -> str:
        return f"The {rng.choice(nouns)} {rng.choice(verbs)} a {rng.choice(nouns)}."

    return "\n\n".join(
        " ".join(sentence() for _ in range(rng.randrange(1, 5))) for _ in range(documents)
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "text.txt"
    path.write_text(toy_text() + "\n")
    return path


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Text is tokenised once, whatever the run."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def pretrain(run, data, cache):
    def pretrain(output, *args, recipe="tiny", text=data):
        where = ["--recipe", recipe, "--data", text, "--output", output, "--cache", cache]
        return run("pretrain", *where, *SMALL, *args)

    return pretrain


@pytest.fixture
def model(pretrain, tmp_path):
    found = pretrain(tmp_path / "run", *STEPS, "--json")
    assert found.returncode == 0, found.stderr
    return tmp_path / "run/model"


# ── pretrain ────────────────────────────────────────────────────────────────────────────────


def test_pretrain_reports_json_lines_and_leaves_a_model(pretrain, tmp_path):
    found = pretrain(tmp_path / "run", *STEPS, "--json")
    assert found.returncode == 0, found.stderr
    corpus, *lines = map(json.loads, found.stdout.splitlines())
    assert corpus["corpus"]["train"] > corpus["corpus"]["held_out"] > 0
    assert corpus["coverage"] == 1.0
    assert [line["step"] for line in lines] == [2, 4, 4]
    assert lines[-1]["held_out_mean"] > 1
    assert found.stderr == b""
    written = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in written] == lines
    assert read_record(tmp_path / "run/run.json")["results"].items() <= lines[-1].items()
    assert Elmo.from_pretrained(tmp_path / "run/model").lm


def test_pretrain_can_store_the_weights_in_eight_bits(pretrain, model, tmp_path):
    found = pretrain(tmp_path / "rounded", *STEPS, "--storage", "int8")
    assert found.returncode == 0, found.stderr
    folder = tmp_path / "rounded/model"
    assert json.loads((folder / "config.json").read_text())["storage"] == "int8"
    rounded, exact = (Elmo.from_pretrained(each).embed([["a"]])[0] for each in (folder, model))
    assert 0 < abs(rounded - exact).max() < 0.05


def test_an_unknown_storage_is_an_error_before_training(pretrain, tmp_path):
    found = pretrain(tmp_path / "run", *STEPS, "--storage", "int4")
    assert found.returncode == 2
    assert b"unknown storage 'int4'; choose float32, int8" in found.stderr
    assert not (tmp_path / "run").exists()


def test_pretrain_tells_people_how_it_goes(pretrain, tmp_path):
    found = pretrain(tmp_path / "run", *STEPS)
    assert found.returncode == 0, found.stderr
    assert b"tokens to train on" in found.stderr
    assert b"the vocabulary covers 100.00%" in found.stderr
    assert b"step 4" in found.stderr
    assert b" left\n" in found.stderr
    result = dict(line.split(None, 1) for line in found.stdout.decode().splitlines())
    assert float(result["perplexity"].partition(", the mean")[0].replace(",", "")) > 1
    assert result["model"] == str(tmp_path / "run/model")
    assert result["next"].endswith(f"--model {tmp_path / 'run/model'}")
    assert b"\x1b" not in found.stdout + found.stderr


def test_minutes_bound_a_run(pretrain, tmp_path):
    found = pretrain(tmp_path / "run", "--minutes", "0.004", "--json")
    assert found.returncode == 0, found.stderr
    seconds = read_record(tmp_path / "run/run.json")["seconds"]  # rounded to a tenth
    assert 0.2 <= seconds < 20


def test_a_run_is_resumed(pretrain, tmp_path):
    first = pretrain(tmp_path / "run", *STEPS, "--set", "training.checkpoint_every=2")
    assert first.returncode == 0, first.stderr
    (tmp_path / "run/run.json").unlink()
    again = pretrain(tmp_path / "run", *STEPS, "--json")
    assert again.returncode == 2
    assert b"unfinished run; resume it with --resume, or" in again.stderr
    more = ["--set", "training.steps=6", "--set", "training.checkpoint_every=2", "--resume"]
    found = pretrain(tmp_path / "run", *more, "--json")
    assert found.returncode == 0, found.stderr
    assert [json.loads(line).get("step") for line in found.stdout.splitlines()] == [None, 6, 6]


@pytest.fixture
def signalled(monkeypatch):
    """Send a signal to this process while a step is made."""

    def signalled(step, number):
        train_step = Trainer._train_step

        def with_signal(trainer, progress):
            if trainer.step == step:
                signal.raise_signal(number)
            return train_step(trainer, progress)

        monkeypatch.setattr(Trainer, "_train_step", with_signal)

    yield signalled
    monkeypatch.undo()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_says_what_is_safe_and_how_to_go_on(
    pretrain, tmp_path, signalled, data, cache, number, code
):
    assert pretrain(tmp_path / "whole", *STEPS, "--json").returncode == 0
    signalled(1, number)
    output = tmp_path / "my run"
    found = pretrain(output, *STEPS, "--json")
    assert found.returncode == code, found.stderr
    command = shlex.split(found.stderr.decode().strip().split("Continue with: relmo ", 1)[1])
    assert found.stderr.startswith(
        f"relmo: interrupted at step 2; everything up to step 2 is saved in {output}/check".encode()
    )
    assert command[:2] == ["pretrain", "--recipe"]
    assert command[-2:] == ["--json", "--resume"]
    with pytest.raises(SystemExit) as exit_:
        main(command)
    assert exit_.value.code in (None, 0)
    assert metrics(output) == metrics(tmp_path / "whole")


def test_an_interruption_before_training_says_how_to_start_again(pretrain, tmp_path, monkeypatch):
    def interrupt(*_):
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("relmo.tasks.lm.pretrain.open_cache", interrupt)
    found = pretrain(tmp_path / "run", *STEPS)
    assert found.returncode == 143
    assert b"relmo: interrupted before the first checkpoint. Start again with: " in found.stderr
    assert b"--resume" not in found.stderr
    assert not (tmp_path / "run").exists()


def test_a_run_that_never_began_is_not_resumed(pretrain, tmp_path):
    found = pretrain(tmp_path / "run", *STEPS, "--resume")
    assert found.returncode == 2
    assert b"run has no checkpoint to resume from" in found.stderr
    assert b"start it without --resume" in found.stderr
    assert not (tmp_path / "run").exists()


def test_a_second_run_in_the_same_folder_is_refused(pretrain, tmp_path):
    with locked_folder(tmp_path / "run"):
        found = pretrain(tmp_path / "run", *STEPS)
    assert found.returncode == 1
    assert f"process {os.getpid()} is writing to this folder".encode() in found.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("recipe", ["tiny", "small", "base"])
def test_every_recipe_makes_checkpoints(recipe):
    assert load_recipe(recipe).training.checkpoint_minutes > 0


def test_fine_tuning_takes_the_models_shapes(pretrain, model, tmp_path):
    found = pretrain(tmp_path / "tuned", *STEPS, "--init", model, "--set", "model.name=tuned")
    assert found.returncode == 0, found.stderr
    config = Elmo.from_pretrained(tmp_path / "tuned/model").config
    assert config.lstm == Elmo.from_pretrained(model).config.lstm
    assert config.name == "tuned"
    results = read_record(tmp_path / "tuned/run.json")["results"]
    before, after = results["held_out_mean_before"], results["held_out_mean"]
    rows = dict(line.split("  ", 1) for line in found.stdout.decode().splitlines())
    assert rows["perplexity"].strip().startswith(f"{before:,.2f} → {after:,.2f}, the mean of both")
    assert rows["per character"].endswith(" bits")
    assert " → " in rows["per character"]
    assert "before" not in rows
    said = f"held-out text before fine-tuning: perplexity {before:,.4g}, "
    assert said in found.stderr.decode()
    assert config.training["began_from"] == Elmo.from_pretrained(model).config.name


def test_compressed_text_and_folders_are_read(run, data, tmp_path):
    (tmp_path / "texts").mkdir()
    with lzma.open(tmp_path / "texts/a.txt.xz", "wt") as file:
        file.write(toy_text(seed=1))
    with gzip.open(tmp_path / "texts/b.txt.gz", "wt") as file:
        file.write(toy_text(seed=2))
    where = ["--recipe", "tiny", "--output", tmp_path / "run", "--data", data]
    found = run("pretrain", *where, "--data", tmp_path / "texts", *SMALL, *STEPS, "--json")
    assert found.returncode == 0, found.stderr
    corpus = json.loads(found.stdout.splitlines()[0])["corpus"]
    words = sum(len(toy_text(seed=seed).replace(".", " .").split()) for seed in range(3))
    sentences = sum(toy_text(seed=seed).count(".") for seed in range(3))
    assert corpus["train"] + corpus["held_out"] == words + 2 * sentences


@pytest.mark.parametrize(
    ("option", "value", "code", "message"),
    [
        ("--recipe", "huge", 2, "no recipe 'huge'; give a TOML file or one of base"),
        ("--set", "lm.row=3", 2, "unknown key 'row'; did you mean 'rows'"),
        ("--set", "lm.rows", 2, "expected section.key=value"),
        ("--set", "lm.rows=1000000", 2, "use fewer rows or shorter windows"),
        ("--minutes", "-1", 2, "training: minutes must be a number > 0"),
        ("--init", "nothing", 2, "no model 'nothing'"),
        ("--data", "no-such-file", 1, "no-such-file: no files found"),
        ("--data", "empty.txt", 1, "no words to train on in empty.txt"),
        ("--data", "latin.txt", 1, "latin.txt: line 1 is not UTF-8"),
        ("--set", "optimizer.learning_rate=1e30", 1, "lower learning_rate"),
        ("--output", "file/run", 1, "cannot write file"),
    ],
)
def test_what_goes_wrong_is_one_clear_message(
    run, data, cache, tmp_path, monkeypatch, option, value, code, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("\n\n \n")
    (tmp_path / "latin.txt").write_bytes("é\n".encode("latin-1"))
    (tmp_path / "file").write_text("")
    given = {"--recipe": "tiny", "--data": data, "--output": "run", "--cache": cache}
    given[option] = value
    found = run("pretrain", *SMALL, *(each for pair in given.items() for each in pair))
    assert found.returncode == code, found.stderr
    assert message in " ".join(found.stderr.decode().split())
    assert "Traceback" not in found.stderr.decode()
    assert not (tmp_path / "run/run.json").exists()


def test_a_finished_run_is_not_written_over(pretrain, model):
    found = pretrain(model.parent, *STEPS)
    assert found.returncode == 2
    assert b"contains a finished run; choose another folder" in found.stderr


@pytest.mark.parametrize("rank", [0, 1])
def test_of_several_processes_one_tells_the_result(pretrain, tmp_path, monkeypatch, rank):
    scores = {"held_out_mean": 3.5} if rank == 0 else {}  # as pretraining gives them to each
    monkeypatch.setattr("relmo.tasks.lm.pretrain.pretrain", lambda *_, **__: scores)
    monkeypatch.setenv("RANK", str(rank))
    found = pretrain(tmp_path / "run", *STEPS)
    assert found.returncode == 0
    assert (found.stdout == b"") == (rank == 1)


def test_text_must_be_given(run, tmp_path):
    found = run("pretrain", "--recipe", "tiny", "--output", tmp_path / "run")
    assert found.returncode == 2
    assert b"--data" in found.stderr


# ── perplexity ──────────────────────────────────────────────────────────────────────────────


def test_perplexity_reports_what_design_says(run, model, data):
    found = run("perplexity", data, "--model", model, "--json")
    assert found.returncode == 0, found.stderr
    report = json.loads(found.stdout)
    names = {"forward", "backward", "mean", "tokens", "unknown_rate", "bits_per_character"}
    assert set(report) == names
    assert report["mean"] == pytest.approx((report["forward"] + report["backward"]) / 2)
    sentences = toy_text().count(".")
    assert report["tokens"] == 6 * sentences + sentences  # six words and the sentence's end
    assert report["unknown_rate"] == 0
    bits = report["tokens"] * (math.log2(report["forward"]) + math.log2(report["backward"])) / 2
    characters = len(data.read_text()) - data.read_text().count("\n\n")  # without blank lines
    assert report["bits_per_character"] == pytest.approx(bits / characters)
    assert found.stderr == b""


def test_starts_differ(run, model, data):
    found = [
        json.loads(run("perplexity", data, "--model", model, "--json", "--start", start).stdout)
        for start in ("zero", "stored", "carried")
    ]
    assert len({report["mean"] for report in found}) == 3
    assert len({report["tokens"] for report in found}) == 1


def test_compression_changes_nothing(run, model, data, tmp_path):
    packed = tmp_path / "text.txt.xz"
    packed.write_bytes(lzma.compress(data.read_bytes()))
    one, two = (run("perplexity", path, "--model", model, "--json") for path in (data, packed))
    assert two.returncode == 0, two.stderr
    assert one.stdout == two.stdout


def test_a_blank_line_ends_a_document(run, model, tmp_path):
    text = "The dog sees a cat.\nThe cat hears a bird.\n"
    for name, between in (("one", ""), ("two", "\n"), ("many", "\n \n\n")):
        (tmp_path / name).write_text(text + between + text)

    def mean(name, *args):
        found = run("perplexity", tmp_path / name, "--model", model, "--json", *args)
        return json.loads(found.stdout)["mean"]

    assert mean("two") == mean("many") != mean("one")
    assert mean("two", "--start", "zero") == mean("one", "--start", "zero")


@pytest.mark.filterwarnings("default:.* are outside the vocabulary")
def test_words_outside_the_vocabulary_are_counted(run, model, tmp_path):
    (tmp_path / "text").write_text("The wombat sees a cat.\n")
    found = run("perplexity", tmp_path / "text", "--model", model, "--json")
    assert json.loads(found.stdout)["unknown_rate"] == pytest.approx(1 / 6)
    assert b"relmo: 16.7% of the words are outside the vocabulary" in found.stderr


def test_a_report_for_people_is_lines_of_names_and_values(run, model, data):
    found = run("perplexity", data, "--model", model)
    lines = dict(line.split(None, 1) for line in found.stdout.decode().splitlines())
    assert float(lines["perplexity"].partition(", the mean")[0].replace(",", "")) > 1


@pytest.mark.parametrize(
    ("text", "message"),
    [(b"", "contains no words"), (b"\n \n", "contains no words"), (b"\xff\n", "not UTF-8")],
)
def test_a_text_without_words_is_an_error(run, model, tmp_path, text, message):
    (tmp_path / "text").write_bytes(text)
    found = run("perplexity", tmp_path / "text", "--model", model, "--json")
    assert found.returncode == 1
    assert message in " ".join(found.stderr.decode().split())
    assert found.stdout == b""


def test_wrong_calls_of_perplexity(run, model, data, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    Elmo.untrained(tiny_config(), seed=1).save_pretrained(tmp_path / "bare")
    for args, message in (
        (["no-such-file", "--model", model], "no-such-file: no such file"),
        ([data, "--model", "nothing"], "no model 'nothing'"),
        ([data, "--model", tmp_path / "bare"], "has no softmax"),
        ([data, "--model", model, "--start", "warm"], "warm"),
        ([], "FILE"),
    ):
        found = run("perplexity", *args)
        assert found.returncode == 2, found.stderr
        assert message in " ".join(found.stderr.decode().split())
        assert b"Traceback" not in found.stderr
