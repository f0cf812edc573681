"""No long command is silent: what it says of its work, where, and what when it is interrupted."""

import json
import signal

import pytest

from relmo import progress
from relmo.tasks.run import train_task
from tests.support.toy_probes import WRITERS
from tests.support.toy_runs import Runs, fill
from tests.support.toy_tasks import TOYS, Rng, toy_recipe

CORPUS = "They play here .\nThe play was long .\n\nA play of words .\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_lm):
    """A folder with a model, a run, data for the probes, records and a text."""
    folder = tmp_path_factory.mktemp("place")
    tiny_lm.save_pretrained(folder / "model")
    TOYS["classify"].write(folder / "reviews.csv", 40, Rng(0))
    recipe = toy_recipe("classify", "training.steps=2")
    train_task("classify", recipe, folder / "reviews.csv", folder / "run", device="cpu")
    for name, write in WRITERS.items():
        write(folder / name)
    fill(Runs(folder / "runs"))
    (folder / "text.txt").write_text(CORPUS)
    return folder


@pytest.fixture
def said(monkeypatch):
    """The works that are shown, by name."""
    found = []
    begin = progress._display.begin
    monkeypatch.setattr(
        progress._display, "begin", lambda work: (found.append(work.what), begin(work))
    )
    return found


WORKS = {
    "probe pos": {"sentences read", "steps of a classifier"},
    "probe wsd": {"reading the annotated text", "sentences read", "words disambiguated"},
    "probe wic": {"sentences read", "sentences"},
    "probe intrinsic": {"sentences split", "sentences read", "layers measured"},
    "probe blimp": {"probe blimp"},
    "neighbors": {"lines split into sentences", "sentences searched"},
    "bench": {"preparing", "warming up", "rounds timed"},
    "report": {"sections", "writing tables and figures"},
    "evaluate": {"texts predicted"},
    "predict": {"inputs answered"},
    "convert": {"loading PyTorch"},
    "perplexity": {"documents split", "scoring the text"},
    "surprisal": {"loading PyTorch"},
}


def arguments(name, place, out):
    command, _, kind = name.partition(" ")
    model = ["--model", place / "model"]
    return [command, *{
        "probe": [kind, "--data", place / kind, *model],
        "neighbors": ["play", "He saw a play .", "--corpus", place / "text.txt", *model],
        "bench": [*model, "--seconds", "0.1", "--suite", "train", "--text", place / "text.txt"],
        "report": ["--runs", place / "runs", "--output", out],
        "evaluate": [place / "run", "--data", place / "reviews.csv"],
        "predict": [place / "run", place / "reviews.csv"],
        "convert": [place / "model", out, "--to", "hdf5"],
        "perplexity": [place / "text.txt", *model],
        "surprisal": [place / "text.txt", *model],
    }[command]]  # fmt: skip


@pytest.mark.parametrize("name", WORKS)
def test_a_command_says_what_it_is_doing_and_keeps_its_output_clean(
    run, place, said, tmp_path, name
):
    found = run(*arguments(name, place, tmp_path / "out"), "--json")
    assert found.returncode == 0, found.stderr
    for line in found.stdout.splitlines():
        json.loads(line)
    assert said[0] == "loading PyTorch" or name == "report"
    assert WORKS[name] <= set(said)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("name", [name for name in WORKS if name != "predict"])
def test_an_interrupted_command_says_what_is_safe(
    run, place, monkeypatch, tmp_path, name, number, code
):
    def interrupt(work):
        if work.what != "loading PyTorch":
            signal.raise_signal(number)

    monkeypatch.setattr(progress._display, "begin", interrupt)
    monkeypatch.setattr(progress._display, "end", lambda *_, **__: None)
    found = run(*arguments(name, place, tmp_path / "out"))
    (line,) = found.stderr.decode().splitlines()
    assert line.startswith("relmo: interrupted; no")  # nothing was written, no scores, no file
    assert f"Start again with: relmo {name}" in line
    assert (found.returncode, found.stdout) == (code, b"")


def test_interrupted_answers_are_whole(run, place, monkeypatch, tmp_path):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("relmo.tasks.labelled.LabelledTask.answer", interrupt)
    found = run(*arguments("predict", place, tmp_path))
    assert found.returncode == 130
    assert b"relmo: interrupted; answers so far are complete" in found.stderr
