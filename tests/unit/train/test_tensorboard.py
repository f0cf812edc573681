"""Metrics for TensorBoard: the same numbers as metrics.jsonl, and never a reason to stop."""

import builtins
import json

import pytest

from relmo.train.distributed import World
from relmo.train.optim import OptimSettings
from relmo.train.tensorboard import TensorBoard
from relmo.train.trainer import Trainer, TrainSettings
from tests.unit.train.test_trainer import Line

INSTALL = "pip install 'relmo[tensorboard]'"


@pytest.fixture
def scalars():
    """Reads a folder of event files: {tag: [(step, value), …]}."""
    events = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason=INSTALL
    )

    def scalars(folder):
        found = events.EventAccumulator(str(folder))
        found.Reload()
        tags = found.Tags()["scalars"]
        return {tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in tags}

    return scalars


@pytest.fixture
def without(monkeypatch):
    """As if tensorboard were not installed."""
    real = builtins.__import__

    def importing(name, *args, **options):
        if name.startswith(("tensorboard", "torch.utils.tensorboard")):
            raise ModuleNotFoundError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", importing)


def train(folder, steps, task=None, world=None, resume=False):
    settings = TrainSettings(steps=steps, log_every=1, evaluate_every=2, checkpoint_every=2)
    return Trainer(task or Line(), settings, OptimSettings(), folder, world).fit(resume)


def lines_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def expected(folder, key):
    return [(line["step"], line[key]) for line in lines_of(folder) if key in line]


def test_a_runs_numbers_are_there_under_their_keys(tmp_path, scalars):
    train(tmp_path, 4)
    found = scalars(tmp_path / "tensorboard")
    keys = {key for line in lines_of(tmp_path) for key in line}
    assert set(found) == keys - {"step"}
    for key in ("loss", "rate", "slope", "epoch"):
        assert [step for step, _ in found[key]] == [step for step, _ in expected(tmp_path, key)]
        assert [v for _, v in found[key]] == pytest.approx([v for _, v in expected(tmp_path, key)])


class Stop(Exception):
    pass


def test_a_resumed_run_goes_on_and_hides_what_comes_again(tmp_path, scalars):
    class Stopping(Line):
        def loss(self, step):
            if step == 3:
                raise Stop
            return super().loss(step)

    with pytest.raises(Stop):
        train(tmp_path, 6, Stopping())
    assert [step for step, _ in scalars(tmp_path / "tensorboard")["loss"]] == [1, 2, 3]
    train(tmp_path, 6, resume=True)
    found = scalars(tmp_path / "tensorboard")["loss"]
    assert [step for step, _ in found] == [1, 2, 3, 4, 5, 6]
    assert [value for _, value in found] == pytest.approx(
        [value for _, value in expected(tmp_path, "loss")]
    )


def test_a_run_that_begins_anew_hides_the_one_before(tmp_path, scalars):
    for value in (1.0, 2.0):
        board = TensorBoard(tmp_path, -1)
        board.write({"step": 1, "loss": value})
        board.close()
    assert scalars(tmp_path)["loss"] == [(1, 2.0)]


def test_only_numbers_are_written(tmp_path, scalars):
    board = TensorBoard(tmp_path, -1)
    board.write({"step": 3, "whole": 2, "no": None, "yes": True, "text": "x", "all": {"a": 1}})
    board.close()
    assert scalars(tmp_path) == {"whole": [(3, 2.0)]}


def test_only_the_main_process_writes(tmp_path, monkeypatch):
    monkeypatch.setattr("relmo.train.trainer.average_gradients", lambda *_: None)
    monkeypatch.setattr("relmo.train.trainer.mean_over", lambda values, _: values)
    monkeypatch.setattr("relmo.train.trainer.gather_state", lambda state, _: state)
    monkeypatch.setattr("relmo.train.trainer.wait", lambda _: None)
    train(tmp_path, 2, world=World(rank=1, size=2))
    assert not (tmp_path / "tensorboard").exists()


def test_without_tensorboard_a_run_is_the_same(tmp_path, without):
    assert train(tmp_path, 2)["slope"] > 0
    assert not (tmp_path / "tensorboard").exists()
    assert len(lines_of(tmp_path)) == 3


def test_a_folder_that_cannot_be_made_does_not_stop_a_run(tmp_path):
    (tmp_path / "tensorboard").write_text("a file")
    assert train(tmp_path, 2)["slope"] > 0


def test_a_writer_that_fails_does_not_stop_a_run(tmp_path):
    class Broken:
        def add_scalar(self, *_):
            raise OSError(28, "No space left on device")

        close = add_scalar

    board = TensorBoard(tmp_path, -1)
    board.close()
    board._writer = Broken()
    board.write({"step": 1, "loss": 1.0})
    board.write({"step": 2, "loss": 1.0})
    board._writer = Broken()
    board.close()
