"""The best weights on disk, with the scores they reached."""

import json
import math

import pytest
import torch
from safetensors import SafetensorError
from torch import nn

from relmo.errors import OutputError, WeightError
from relmo.train import best as module
from relmo.train.best import NAME, Best, drop_best, load_best, read_best, save_best

BEST = Best(7, {"f1": 81.5, "loss": 0.25}, 2)


def model(value=1.0, width=3):
    layer = nn.Linear(width, 2)
    nn.init.constant_(layer.weight, value)
    return layer


@pytest.mark.parametrize(
    ("scores", "is_better"),
    [({"f1": 82.0}, True), ({"f1": 81.5}, False), ({"f1": 0}, False), ({"f1": math.nan}, False),
     ({}, False)],
)  # fmt: skip
def test_only_a_higher_figure_is_better(scores, is_better):
    assert BEST.is_beaten_by(scores, "f1") is is_better


def test_any_number_is_better_than_none():
    assert Best().is_beaten_by({"f1": -3.0}, "f1")
    assert not Best().is_beaten_by({"f1": math.nan}, "f1")


def test_weights_and_scores_come_back(tmp_path):
    save_best(tmp_path, model(1.0), Best(3))
    save_best(tmp_path, model(5.0), BEST)
    found = model(0.0)
    assert load_best(tmp_path, found) == read_best(tmp_path) == BEST
    assert found.weight.unique().tolist() == [5.0]
    assert [p.name for p in tmp_path.iterdir()] == [NAME]


def test_a_run_that_has_not_scored_says_so(tmp_path):
    assert read_best(tmp_path) is None
    with pytest.raises(WeightError, match="this run has not scored yet; train it on"):
        load_best(tmp_path, model())


def test_weights_of_another_model_are_refused(tmp_path):
    save_best(tmp_path, model(width=4), BEST)
    with pytest.raises(WeightError, match=r"'weight' has the shape \(2, 4\), expected \(2, 3\)"):
        load_best(tmp_path, model())
    save_best(tmp_path, nn.Sequential(model()), BEST)
    with pytest.raises(WeightError, match="lacks 'bias', 'weight'; it is of another run"):
        load_best(tmp_path, model())


@pytest.mark.parametrize("content", [b"", b"\x10\0\0\0\0\0\0\0{}", b"hello"])
def test_a_broken_file_is_named(tmp_path, content):
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(WeightError, match=f"{NAME}: is no file of a run"):
        load_best(tmp_path, model())


def test_a_full_disk_leaves_the_weights_before(tmp_path, monkeypatch):
    save_best(tmp_path, model(1.0), BEST)

    def fail(*_):
        raise SafetensorError("No space left on device")

    monkeypatch.setattr(module, "save_file", fail)
    with pytest.raises(OutputError, match="No space left"):
        save_best(tmp_path, model(2.0), Best(9))
    found = model(0.0)
    assert load_best(tmp_path, found) == BEST
    assert torch.equal(found.weight, model(1.0).weight)


def test_scores_are_kept_as_json(tmp_path):
    save_best(tmp_path, model(), BEST)
    header = (tmp_path / NAME).read_bytes()
    size = int.from_bytes(header[:8], "little")
    assert json.loads(json.loads(header[8 : 8 + size])["__metadata__"]["best"])["step"] == 7


def test_weights_of_an_earlier_run_can_be_dropped(tmp_path):
    drop_best(tmp_path)
    save_best(tmp_path, model(), BEST)
    drop_best(tmp_path)
    assert list(tmp_path.iterdir()) == []
