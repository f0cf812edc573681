"""relmo probe, as a script and as a person sees it."""

import json

import pytest

from relmo.lab.probes.run import BY_PART
from relmo.training.run import read_record
from tests.support.toy_probes import WRITERS, write_pairs, write_wic

LAYERS = ("layer_0", "layer_1", "layer_2")
MEASURES = {
    "wsd": "test_f1", "intrinsic": "self_similarity", "pos": "test_accuracy",
    "wic": "test_accuracy", "blimp": "overall_accuracy", "acceptability": "dev_mcc",
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory, tiny_lm):
    folder = tmp_path_factory.mktemp("model")
    tiny_lm.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", WRITERS)
def test_a_probe_reports_as_json_and_writes_its_record(run, model, tmp_path, name):
    data, output = WRITERS[name](tmp_path / "data"), tmp_path / "out"
    found = run("probe", name, "--data", data, "--model", model, "--output", output, "--json")
    assert found.returncode == 0, found.stderr
    results = json.loads(found.stdout)
    readings = ("forward", "backward", "both") if name in BY_PART else LAYERS
    assert {f"{MEASURES[name]}_{reading}" for reading in readings} <= results.keys()
    assert read_record(output / "run.json")["results"] == results


def test_a_person_sees_a_table_of_readings_and_parts(run, model, tmp_path):
    found = run("probe", "wic", "--data", write_wic(tmp_path / "data"), "--model", model)
    assert found.returncode == 0, found.stderr
    lines = found.stdout.decode().splitlines()
    assert lines[0].startswith("wic, tiny")
    assert any("layer_1" in line and "100.00" in line for line in lines)
    assert any("static" in line and "50.00" in line for line in lines)
    assert b"\x1b" not in found.stdout


def test_a_person_sees_phenomena_and_directions(run, model, tmp_path):
    found = run("probe", "blimp", "--data", write_pairs(tmp_path / "data"), "--model", model)
    lines = [line.split() for line in found.stdout.decode().splitlines()]
    assert "6 pairs, 2 paradigms, 0 ties (counted as wrong)" in found.stdout.decode()
    assert lines[1] == ["part", "forward", "backward", "both"]
    assert [line[0] for line in lines[2:]] == ["overall", "agreement"]  # no single paradigm


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["probe", "poss", "--data", "."], 2, "no probe 'poss'; did you mean 'pos'"),
        (["probe", "pos", "--data", "nowhere"], 2, "nowhere is not a folder"),
        (["probe", "pos", "--data", ".", "--model", "nothing"], 2, "no model 'nothing'"),
        (["probe", "wsd", "--data", ".", "--precision", "int3"], 2, "int3"),
    ],
)
def test_a_wrong_call_is_one_clear_message(run, monkeypatch, tmp_path, args, code, message):
    monkeypatch.chdir(tmp_path)
    found = run(*args)
    assert found.returncode == code
    assert message in found.stderr.decode()
    assert b"Traceback" not in found.stderr


def test_a_bad_line_ends_the_command_and_is_named(run, model, tmp_path):
    data = write_wic(tmp_path / "data")
    (data / "dev" / "dev.gold.txt").write_text("T\nmaybe\n")
    found = run("probe", "wic", "--data", data, "--model", model)
    assert found.returncode == 1
    assert b"dev.gold.txt, line 2: expected T or F, got 'maybe'" in found.stderr


NEIGHBORS = ("neighbors", "play", "He saw a play .")


def test_neighbors_do_not_write_over_a_record(run, model, tmp_path):
    (tmp_path / "text.txt").write_text("They play here .\nThe play was long .\n")
    call = (*NEIGHBORS, "--corpus", tmp_path / "text.txt", "--model", model, "--output", tmp_path)
    first = run(*call, "--json")
    assert first.returncode == 0, first.stderr
    assert len(json.loads(first.stdout)["context"]) == 2
    shown = run(*call[:-2])
    assert b"[play]" in shown.stdout  # a pipe has no bold letters
    again = run(*call)
    assert again.returncode == 2
    assert b"contains a finished run; choose another folder" in again.stderr


def test_neighbors_say_that_the_word_does_not_occur(run, model, tmp_path):
    (tmp_path / "text.txt").write_text("Nothing here .\n")
    found = run(*NEIGHBORS, "--corpus", tmp_path / "text.txt", "--model", model)
    assert found.returncode == 0, found.stderr
    assert b"'play' is in no other sentence of " in found.stderr


def test_neighbors_by_a_layer_are_told_by_number_or_name(run, model, tmp_path):
    (tmp_path / "text.txt").write_text("They play here .\n")
    call = (*NEIGHBORS, "--corpus", tmp_path / "text.txt", "--model", model, "--json", "--layer")
    by_number, by_name = (json.loads(run(*call, layer).stdout) for layer in ("2", "top"))
    assert (by_number.pop("layer"), by_name.pop("layer")) == (2, "top")
    assert by_number == by_name
    wrong = run(*call, "7")
    assert wrong.returncode == 2
    assert b"unknown layers 7; choose 'mean', 'top'" in wrong.stderr
