"""A run's folder: what may be written to it, its metrics, its best weights; records."""

import builtins
import json
import math
import os
import signal
import subprocess
from contextlib import nullcontext
from dataclasses import asdict

import pytest
import torch
from safetensors import SafetensorError
from torch import nn

from relmo.errors import ConfigError, Interrupted, OutputError, WeightError
from relmo.training import run as module
from relmo.training.checkpoint import Best
from relmo.training.distributed import World
from relmo.training.optim import OptimSettings
from relmo.training.run import Run, TensorBoard, check_record, read_record, write_record
from relmo.training.trainer import Trainer, TrainSettings
from relmo.weights import safetensors_files
from relmo.weights.safetensors_files import write_tensors
from tests.support.leftovers import leftover
from tests.unit.training.test_trainer import Line

NAME = "best.safetensors"


# ── start and resume ────────────────────────────────────────────────────────────────────────────


def used(folder, *files):
    """A run's folder with these files in it."""
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return Run(folder)


STEP = "checkpoint/step-000000003/state.json"


@pytest.mark.parametrize(
    ("files", "resume", "error"),
    [
        ((), False, None),
        ((), True, "has no checkpoint to resume from: .* start it without --resume"),
        (("checkpoint/course.json",), True, "has no checkpoint to resume from"),
        (("run.json",), False, "contains a finished run; choose another folder"),
        (("run.json",), True, "finished run without a checkpoint to resume from"),
        (("run.json", STEP), False, "contains a finished run; choose another folder"),
        (("run.json", STEP), True, None),
        ((STEP,), False, "unfinished run; resume it with --resume, or"),
        ((STEP, NAME), True, None),
        ((NAME,), False, "weights of an unfinished run without a checkpoint to resume from"),
        ((NAME,), True, "weights of an unfinished run without a checkpoint to resume from"),
    ],
)
def test_a_run_is_never_overwritten(tmp_path, files, resume, error):
    run = used(tmp_path, *files)
    expected = nullcontext() if error is None else pytest.raises(ConfigError, match=error)
    with expected:
        run.check_start(resume=resume)


def test_two_runs_do_not_share_a_folder(tmp_path):
    who = f"run: process {os.getpid()} is writing to this folder; wait until it ends"
    with Run(tmp_path / "run").opened(resume=False):
        with pytest.raises(OutputError, match=who), Run(tmp_path / "run").opened(resume=False):
            pass
        with Run(tmp_path / "run").opened(resume=False, is_main=False):
            pass  # another process of the same run
    with Run(tmp_path / "run").opened(resume=False):
        pass


def test_a_checkpoint_that_was_being_replaced_is_put_back(tmp_path):
    used(tmp_path, f"checkpoint/{leftover('step-000000003', 'old')}/state.json")
    used(tmp_path, f"checkpoint/{leftover('step-000000003')}/state.json")
    with Run(tmp_path).opened(resume=True):
        names = [path.name for path in (tmp_path / "checkpoint").iterdir()]
    assert names == ["step-000000003"]


@pytest.mark.parametrize(
    ("files", "said"),
    [((), "interrupted before the first checkpoint"),
     ((STEP,), "interrupted; everything up to step 3 is saved in .*checkpoint")],
)  # fmt: skip
def test_an_interruption_says_what_is_safe(tmp_path, files, said):
    used(tmp_path, *files)
    with (
        pytest.raises(Interrupted, match=said) as caught,
        Run(tmp_path).opened(resume=bool(files)),
    ):
        raise Interrupted(cause=signal.SIGTERM)
    assert caught.value.can_resume == bool(files)
    assert caught.value.signal == signal.SIGTERM


SETTINGS = {"seed": 1, "lm": {"rows": 4, "spans": (8, 2)}, "data": {"train": "a1"}}


def test_a_run_is_resumed_with_the_settings_it_started_with(tmp_path):
    run = Run(tmp_path)
    run.check_settings(SETTINGS, save=True)
    run.check_settings({**SETTINGS, "seed": 2}, save=True)  # no checkpoint yet: it starts again
    used(tmp_path, STEP)
    run.check_settings({**SETTINGS, "seed": 2}, save=True)
    with pytest.raises(
        ConfigError, match=r"different settings \(seed\); resume with the original ones, or"
    ):
        run.check_settings(SETTINGS, save=True)
    other = {**SETTINGS, "seed": 2, "lm": {"rows": 8, "spans": (8, 2)}, "data": {"train": "b2"}}
    with pytest.raises(
        ConfigError, match=r"settings \(data, lm\); .* original ones \(lm.rows 4\), or"
    ):
        run.check_settings(other, save=False)


def test_settings_added_since_a_run_started_have_their_defaults(tmp_path):
    run = Run(tmp_path)
    run.check_settings(SETTINGS, save=True)
    used(tmp_path, STEP)
    added = {**SETTINGS, "lm": {**SETTINGS["lm"], "ahead": 0.0}}
    run.check_settings(added, save=False, defaults={"lm": {"ahead": 0.0}})
    with pytest.raises(ConfigError, match=r"settings \(lm\); .* \(lm.ahead 0.0\)"):
        run.check_settings(
            {**SETTINGS, "lm": {**SETTINGS["lm"], "ahead": 0.5}},
            save=False,
            defaults={"lm": {"ahead": 0.0}},
        )


def test_nothing_is_written_where_no_checkpoints_are_made(tmp_path):
    Run(tmp_path).check_settings(SETTINGS, save=False)
    assert list(tmp_path.iterdir()) == []


# ── metrics ─────────────────────────────────────────────────────────────────────────────────────


def steps_in(run):
    return [json.loads(line)["step"] for line in run.metrics_path.read_text().splitlines()]


@pytest.fixture
def run(tmp_path):
    for step in (2, 4, 6):
        Run(tmp_path).append_metrics({"step": step, "loss": 1.0})
        Run(tmp_path).append_metrics({"step": step, "score": step / 3})
    return Run(tmp_path)


def test_lines_of_steps_that_come_again_are_dropped(run):
    run.drop_metrics_after(4)
    assert steps_in(run) == [2, 2, 4, 4]


def test_a_run_that_begins_drops_all(run):
    run.drop_metrics_after(-1)
    assert run.metrics_path.read_text() == ""


def test_scores_of_the_end_come_again(run):
    run.drop_metrics_after(6, is_over=True)
    lines = [json.loads(line) for line in run.metrics_path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [2, 2, 4, 4, 6]
    assert "loss" in lines[-1]


@pytest.mark.parametrize(
    "torn", ['{"step": 7, "lo', "{}", "\x00\x00", "[1]", "5", "[" * 100_000, "\udcff"]
)
def test_a_torn_line_is_dropped(run, torn):
    with run.metrics_path.open("a", errors="surrogateescape") as file:
        file.write(torn)
    run.drop_metrics_after(100)
    assert steps_in(run) == [2, 2, 4, 4, 6, 6]
    run.append_metrics({"step": 8})
    assert steps_in(run)[-1] == 8


def test_without_a_file_nothing_is_dropped(tmp_path):
    Run(tmp_path).drop_metrics_after(3)
    assert list(tmp_path.iterdir()) == []


def test_metrics_that_cannot_be_written_are_an_error(tmp_path):
    with pytest.raises(OutputError, match="cannot write"):
        Run(tmp_path / "missing").append_metrics({"step": 1})


@pytest.mark.parametrize("name", ["metrics.jsonl", ".lock"])
def test_a_run_writes_through_no_link(tmp_path, name):
    precious, run = tmp_path / "precious", Run(tmp_path / "run")
    precious.write_text("precious")
    run.folder.mkdir()
    (run.folder / name).symlink_to(precious)
    with pytest.raises(OutputError, match="a link, a pipe or a device"), run.opened(resume=False):
        run.append_metrics({"step": 1})
    assert precious.read_text() == "precious"


def test_a_curve_has_the_steps_at_which_a_score_was_measured(run):
    assert run.curve("score") == {"step": [2, 4, 6], "score": [0.6667, 1.3333, 2.0]}


# ── TensorBoard ─────────────────────────────────────────────────────────────────────────────────

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
    return Trainer(task or Line(), settings, OptimSettings(), Run(folder), world).fit(resume)


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
    monkeypatch.setattr(World, "average_gradients", lambda *_: None)
    monkeypatch.setattr(World, "mean", lambda _, values: values)
    monkeypatch.setattr(World, "gather", lambda _, state: state)
    monkeypatch.setattr(World, "from_main", lambda _, value: value)
    monkeypatch.setattr(World, "wait", lambda _: None)
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


# ── the best weights ────────────────────────────────────────────────────────────────────────────

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
    Run(tmp_path).save_best(model(1.0), Best(3))
    Run(tmp_path).save_best(model(5.0), BEST)
    found = model(0.0)
    assert Run(tmp_path).load_best(found) == Run(tmp_path).read_best() == BEST
    assert found.weight.unique().tolist() == [5.0]
    assert [p.name for p in tmp_path.iterdir()] == [NAME]


def test_a_run_that_has_not_scored_says_so(tmp_path):
    assert Run(tmp_path).read_best() is None
    with pytest.raises(WeightError, match="this run has no scores yet; continue training"):
        Run(tmp_path).load_best(model())


def test_weights_of_another_model_are_refused(tmp_path):
    Run(tmp_path).save_best(model(width=4), BEST)
    with pytest.raises(WeightError, match=r"'weight' has the shape \(2, 4\), expected \(2, 3\)"):
        Run(tmp_path).load_best(model())
    Run(tmp_path).save_best(nn.Sequential(model()), BEST)
    with pytest.raises(WeightError, match="lacks 'bias', 'weight'; .* another run"):
        Run(tmp_path).load_best(model())


@pytest.mark.parametrize("content", [b"", b"\x10\0\0\0\0\0\0\0{}", b"hello"])
def test_a_broken_file_is_named(tmp_path, content):
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(WeightError, match=f"{NAME}: not the weights of a run"):
        Run(tmp_path).load_best(model())


@pytest.mark.parametrize("place", [-1, -20, 60])
def test_one_flipped_bit_is_noticed(tmp_path, place):
    Run(tmp_path).save_best(model(1.0), BEST)
    content = bytearray((tmp_path / NAME).read_bytes())
    content[place] ^= 1
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(WeightError, match=NAME):
        Run(tmp_path).load_best(model())


def test_weights_of_an_earlier_version_have_no_checksum(tmp_path):
    write_tensors(tmp_path / NAME, model(4.0).state_dict(), {"best": json.dumps(asdict(BEST))})
    found = model()
    assert Run(tmp_path).load_best(found) == BEST
    assert found.weight.unique().tolist() == [4.0]


def test_a_full_disk_leaves_the_weights_before(tmp_path, monkeypatch):
    Run(tmp_path).save_best(model(1.0), BEST)

    def fail(*_):
        raise SafetensorError("No space left on device")

    monkeypatch.setattr(safetensors_files, "save_file", fail)
    with pytest.raises(OutputError, match="No space left"):
        Run(tmp_path).save_best(model(2.0), Best(9))
    found = model(0.0)
    assert Run(tmp_path).load_best(found) == BEST
    assert torch.equal(found.weight, model(1.0).weight)


def test_scores_are_kept_as_json(tmp_path):
    Run(tmp_path).save_best(model(), BEST)
    header = (tmp_path / NAME).read_bytes()
    size = int.from_bytes(header[:8], "little")
    assert json.loads(json.loads(header[8 : 8 + size])["__metadata__"]["best"])["step"] == 7


# ── records ─────────────────────────────────────────────────────────────────────────────────────

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
    with pytest.raises(WeightError, match="checksum does not match: it was changed after the run"):
        read_record(path)


def test_a_file_without_a_checksum_is_not_a_record(tmp_path):
    path = tmp_path / "run.json"
    path.write_text('{"loss": 1}')
    with pytest.raises(WeightError, match="has no checksum, so relmo did not write it"):
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
    monkeypatch.setattr(module.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(module.torch.cuda, "get_device_name", lambda device: f"GPU {device.index}")
    assert "CPU" in module.hardware(World())
    assert module.hardware(World(device=torch.device("cuda:1"))) == "GPU 1"
    assert module.hardware(World(0, 4, torch.device("cuda:0"))) == "4 x GPU 0"
    assert module.hardware(World(0, 2)).startswith("2 x ")


def test_a_commit_that_cannot_be_found_is_empty(monkeypatch):
    def slow(command, **_):
        raise subprocess.TimeoutExpired(command, 10)

    monkeypatch.setattr(module.subprocess, "run", slow)
    assert module.commit() == ""


def test_a_record_from_elsewhere_can_be_checked(tmp_path):
    write_record(tmp_path / "run.json", FACTS)
    record = read_record(tmp_path / "run.json")
    check_record(record, "line 3")
    with pytest.raises(WeightError, match="line 3: its checksum does not match"):
        check_record({**record, "task": "ner"}, "line 3")
