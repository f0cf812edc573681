"""`relmo bench` as a person and a script see it."""

import json
import sys

import pytest

from relmo import Elmo
from tests.conftest import tiny_config

QUICK = ("--seconds", "0.2")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    Elmo.untrained(tiny_config(), seed=1).save_pretrained(folder)
    return folder


def test_a_report_holds_machine_parts_speed_and_memory(run, model, tmp_path):
    (tmp_path / "in.txt").write_text("The bank raised rates.\nWe sat on the bank.\n")
    text = ("--text", tmp_path / "in.txt", "--precision", "float32", "--precision", "int8")
    missing = ("--peers", "allennlp=/no/such/python")
    found = run("bench", "--model", model, *QUICK, *text, *missing, "--json")
    assert found.returncode == 0, found.stderr
    assert found.stderr == b""
    report = json.loads(found.stdout)
    assert report["machine"]["cpu"]
    assert report["machine"]["torch"]
    assert report["model"]["lstm"] == "2 x 24/8"
    assert report["text"]["tokens"] == 11
    assert report["work"]["lstm_mflop_per_token"] > 0
    for precision in ("float32", "int8"):
        assert report["rates"]["gflop_per_second"][precision] > 0
        assert report["parts_milliseconds"][precision]["LSTMs"] > 0
        fresh = report["fresh"][precision]
        assert fresh["peak_mb"] >= fresh["peak_mb_before_loading"] > 50  # torch is loaded by then
        assert {"import_seconds", "load_seconds", "first_sentence_seconds"} <= fresh.keys()
    runs = {(row["who"], row["case"], row["memo"]) for row in report["speed"]}
    assert ("relmo int8", "batch of 128", "warm") in runs
    assert len(runs) == len(report["speed"]) == 2 * 4 * 2
    assert all(row["rounds"] >= 3 and row["tokens_per_second"] > 0 for row in report["speed"])
    assert all(row["fraction_of_floor"] > 0 for row in report["speed"])
    assert "cannot run /no/such/python" in report["peers"]["allennlp"]["missing"]
    assert report["ratios"] == []


def test_a_person_gets_tables(run, model):
    found = run("bench", "--model", model, *QUICK, "--precision", "float32")
    assert found.returncode == 0, found.stderr
    out = found.stdout.decode()
    assert "text made up: 5,000 sentences" in out
    assert "| case " in out
    assert "| relmo float32 | cold |" in out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--precision", "int4"), "each item one of float32, bfloat16, int8"),
        (("--precision", "int8", "--precision", "int8"), "duplicate precision"),
        (("--seconds", "0"), "seconds must be a number > 0"),
        (("--peers", "bert=python"), "expected NAME=PYTHON"),
        (("--text", "no-such-file"), "no such file"),
        (("--model", "no-such-model"), "no model 'no-such-model'"),
        (("--suite", "speed"), "unknown suite 'speed'; choose embed, growth, gpu"),
        (("--suite", "search"), "needs an index; give one with --index"),
    ],
)
def test_a_wrong_call_is_told_before_anything_is_measured(run, model, args, said):
    found = run("bench", *(() if "--model" in args else ("--model", model)), *args)
    assert found.returncode == 2
    assert said in found.stderr.decode()


def test_a_result_is_kept_with_its_command(run, model, tmp_path, monkeypatch):
    call = ["bench", "--suite", "train", "--model", str(model), *QUICK, "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["relmo", *call])
    found = run(*call, "--output", tmp_path / "result.json", "--json")
    assert found.returncode == 0, found.stderr
    report = json.loads((tmp_path / "result.json").read_text())
    assert (
        report.pop("command")
        == f"relmo bench --suite train --model {model} {' '.join(QUICK)} --device cpu"
    )
    assert report == json.loads(found.stdout)
    found = run(*call, "--output", tmp_path / "result.md")
    kept = (tmp_path / "result.md").read_text()
    assert kept == f"    relmo {' '.join(call)}\n\n{found.stdout.decode()}"
    assert "| biLM    | tokens per second |" in kept
