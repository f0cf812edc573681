"""What a run leaves behind: sealed facts, and a line per look."""

import json
import subprocess

import pytest
import torch

from relmo.errors import OutputError, WeightError
from relmo.train import record
from relmo.train.distributed import World
from relmo.train.record import append_metrics, drop_metrics_after, read_record, write_record

FACTS = {"task": "lm", "results": {"mean": 3.25, "bad": float("inf")}, "filters": ((1, 2), (3, 4))}


def test_a_record_comes_back_with_what_it_was_made_with(tmp_path):
    write_record(tmp_path / "run.json", FACTS)
    found = read_record(tmp_path / "run.json")
    assert found["results"] == FACTS["results"]
    assert found["filters"] == [[1, 2], [3, 4]]
    assert set(found["versions"]) == {"relmo", "python", "torch", "numpy"}
    assert found["hardware"]


@pytest.mark.parametrize("change", ["result", "new key", "lost key"])
def test_a_changed_record_is_refused(tmp_path, change):
    path = tmp_path / "run.json"
    write_record(path, FACTS)
    values = json.loads(path.read_text())
    if change == "result":
        values["results"]["mean"] = 3.0
    elif change == "new key":
        values["more"] = 1
    else:
        del values["task"]
    path.write_text(json.dumps(values))
    with pytest.raises(WeightError, match="seal does not hold: it was changed after the run"):
        read_record(path)


def test_a_file_without_a_seal_is_no_record(tmp_path):
    path = tmp_path / "run.json"
    path.write_text('{"loss": 1}')
    with pytest.raises(WeightError, match="holds no seal, so it is no record of relmo's"):
        read_record(path)


def test_a_record_written_anew_in_another_order_still_holds(tmp_path):
    path = tmp_path / "run.json"
    write_record(path, FACTS)
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    assert read_record(path)["task"] == "lm"


@pytest.mark.parametrize("text", ["{", "[1]", ""])
def test_what_is_no_record_is_a_clear_error(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(WeightError, match="run.json"):
        read_record(tmp_path / "run.json")
    with pytest.raises(WeightError, match="cannot be read"):
        read_record(tmp_path / "missing.json")


def test_the_hardware_is_the_device_that_was_used(monkeypatch):
    monkeypatch.setattr(record.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(record.torch.cuda, "get_device_name", lambda device: f"GPU {device.index}")
    assert "CPU" in record.hardware(World())
    assert record.hardware(World(device=torch.device("cuda:1"))) == "GPU 1"
    assert record.hardware(World(0, 4, torch.device("cuda:0"))) == "4 x GPU 0"
    assert record.hardware(World(0, 2)).startswith("2 x ")


def test_a_commit_that_cannot_be_found_is_empty(monkeypatch):
    def slow(command, **_):
        raise subprocess.TimeoutExpired(command, 10)

    monkeypatch.setattr(record.subprocess, "run", slow)
    assert record.commit() == ""


def steps_in(path):
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path):
    for step in (2, 4, 6):
        append_metrics(tmp_path / "metrics.jsonl", {"step": step, "loss": 1.0})
        append_metrics(tmp_path / "metrics.jsonl", {"step": step, "score": 1.0})
    return tmp_path / "metrics.jsonl"


def test_lines_of_steps_that_come_again_are_dropped(path):
    drop_metrics_after(path, 4)
    assert steps_in(path) == [2, 2, 4, 4]


def test_a_run_that_begins_drops_all(path):
    drop_metrics_after(path, -1)
    assert path.read_text() == ""


def test_scores_of_the_end_come_again(path):
    drop_metrics_after(path, 6, is_over=True)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [2, 2, 4, 4, 6]
    assert "loss" in lines[-1]


@pytest.mark.parametrize("torn", ['{"step": 7, "lo', "{}", "\x00\x00"])
def test_a_torn_line_is_dropped(path, torn):
    with path.open("a") as file:
        file.write(torn)
    drop_metrics_after(path, 100)
    assert steps_in(path) == [2, 2, 4, 4, 6, 6]
    append_metrics(path, {"step": 8})
    assert steps_in(path)[-1] == 8


def test_without_a_file_nothing_is_dropped(tmp_path):
    drop_metrics_after(tmp_path / "missing.jsonl", 3)
    assert list(tmp_path.iterdir()) == []


def test_metrics_that_cannot_be_written_are_an_error(tmp_path):
    with pytest.raises(OutputError, match="cannot write"):
        append_metrics(tmp_path / "missing/metrics.jsonl", {"step": 1})
