"""The loop, on a task that a line can solve."""

import json
import math
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from relmo.errors import ConfigError, Interrupted, OutputError
from relmo.progress import readable
from relmo.training.checkpoint import CheckpointWriter
from relmo.training.optim import OptimSettings
from relmo.training.run import Run
from relmo.training.trainer import Diverged, Trainer, TrainSettings

OPTIM = OptimSettings(learning_rate=0.05, warmup=0.0)


class Stop(Exception):
    pass


class Line:
    """Learns y = 3 x - 1 from `size` points a step; `noise` is random, `bad` gives NaN."""

    steps_per_epoch = 10
    score = None

    def __init__(self, size=4, noise=0.0, bad=None, pause=0.0):
        self.size, self.noise, self.bad, self.pause = size, noise, bad, pause
        self.model = nn.Linear(1, 1)
        nn.init.zeros_(self.model.weight)
        nn.init.zeros_(self.model.bias)
        self.carried = torch.zeros(1, 1, 1)
        self.evaluated = 0

    def loss(self, step):
        points = torch.arange(step * self.size, (step + 1) * self.size)
        x = torch.sin(points.float()).unsqueeze(1)
        y = self.model(x) + self.noise * torch.randn(self.size, 1)
        self.carried = self.carried + step
        scale = math.nan if step == self.bad else 1.0
        return (y - 3 * x + 1).square().mean() * scale

    def measures(self):
        return {"carried": self.carried.item()}

    def evaluate(self):
        self.evaluated += 1
        time.sleep(self.pause)
        assert not self.model.training
        assert not torch.is_grad_enabled()
        return {"slope": self.model.weight.item()}

    def state(self):
        return {"carried": self.carried}

    def load_state(self, state):
        self.carried = state["carried"]


def train(folder, task=None, optim=OPTIM, resume=False, **settings):
    task = task or Line()
    settings = TrainSettings(**{"log_every": 1, **settings})
    trainer = Trainer(task, settings, optim, Run(folder))
    return trainer, trainer.fit(resume)


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def losses(folder):
    return [line["loss"] for line in lines(folder) if "loss" in line]


def test_a_line_is_learned(tmp_path):
    trainer, scores = train(tmp_path, steps=200)
    assert scores["slope"] == pytest.approx(3, abs=0.05)
    assert losses(tmp_path)[-1] < 0.01 * losses(tmp_path)[0]
    assert trainer.step == 200


def test_accumulation_equals_a_larger_batch(tmp_path):
    apart, _ = train(tmp_path / "apart", Line(size=4), steps=5, accumulate=3)
    at_once, _ = train(tmp_path / "at once", Line(size=12), steps=5)
    for one, two in zip(
        apart.task.model.parameters(), at_once.task.model.parameters(), strict=True
    ):
        torch.testing.assert_close(one, two, atol=1e-6, rtol=0)
    assert losses(tmp_path / "apart") == pytest.approx(losses(tmp_path / "at once"), abs=1e-6)


def test_gradients_are_clipped_together(tmp_path):
    optim = OptimSettings(optimizer="adagrad", learning_rate=1.0, warmup=0.0, clip_norm=0.01)
    trainer, _ = train(tmp_path, optim=optim, steps=1)
    moved = torch.cat([p.detach().flatten() for p in trainer.task.model.parameters()]).norm()
    assert moved.item() == pytest.approx(0.01, rel=0.01)  # Adagrad divides by sqrt(1 + g^2)


# ── how long ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "settings",
    [{}, {"steps": 5, "epochs": 1}, {"steps": 5, "minutes": 1}],
)
def test_exactly_one_of_epochs_steps_and_minutes_bounds_a_run(settings):
    with pytest.raises(ConfigError, match="exactly one of epochs, steps and minutes"):
        TrainSettings(**settings)


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [({"steps": 0}, "steps must be an integer ≥ 1 or unset, got 0"),
     ({"minutes": -1.0}, "minutes must be a number > 0 or unset, got -1.0"),
     ({"epochs": math.nan}, "epochs must be a number > 0 or unset, got nan")],
)  # fmt: skip
def test_a_run_has_a_length(settings, wanted):
    with pytest.raises(ConfigError, match=wanted):
        TrainSettings(**settings)


@pytest.mark.parametrize(
    "settings",
    [{"accumulate": 0}, {"log_every": 0}, {"log_every": 2.5}, {"checkpoint_every": -1},
     {"evaluate_every": "often"}, {"seed": -1}],
)  # fmt: skip
def test_settings_that_make_no_sense_are_named(settings):
    with pytest.raises(ConfigError, match=f"{min(settings)} must be an integer ≥ [01], got"):
        TrainSettings(steps=1, **settings)


def test_epochs_are_counted_in_windows_not_in_steps(tmp_path):
    trainer, _ = train(tmp_path, epochs=1.5, accumulate=3)
    assert trainer.step == 5
    assert lines(tmp_path)[-1]["epoch"] == 1.5


def test_a_run_of_minutes_ends_in_time_with_a_complete_schedule(tmp_path, monkeypatch):
    ticks = count()  # a clock of its own: a busy machine must not decide this
    clock = SimpleNamespace(monotonic=lambda: next(ticks) / 2000)
    monkeypatch.setattr("relmo.training.trainer.time", clock)
    trainer, _ = train(tmp_path, minutes=0.005, optim=OptimSettings(warmup=0.2, final=0.1))
    assert 0.3 <= trainer.seconds < 1
    rates = [line["rate"] for line in lines(tmp_path) if "rate" in line]
    assert max(rates) == pytest.approx(1e-3, rel=0.05)
    assert rates[-1] == pytest.approx(1e-4, rel=0.2)


def test_time_for_scores_does_not_count(tmp_path):
    began = time.monotonic()
    trainer, _ = train(tmp_path, Line(pause=0.2), steps=2)
    assert time.monotonic() - began >= trainer.seconds + 0.2


# ── looking ─────────────────────────────────────────────────────────────────────────────────


def test_scores_come_at_intervals_and_once_at_the_end(tmp_path):
    trainer, _ = train(tmp_path, steps=6, evaluate_every=2, log_every=3)
    assert [line["step"] for line in lines(tmp_path) if "slope" in line] == [2, 4, 6]
    assert [line["step"] for line in lines(tmp_path) if "loss" in line] == [3, 6]
    assert trainer.task.evaluated == 3


def test_each_line_is_reported_as_it_is_written(tmp_path):
    seen = []
    settings = TrainSettings(steps=2, log_every=1)
    Trainer(Line(), settings, OPTIM, Run(tmp_path), report=seen.append).fit()
    assert seen == lines(tmp_path)
    assert {"step", "epoch", "seconds", "loss", "rate", "seconds_left"} <= seen[0].keys()


def test_random_numbers_depend_on_seed_and_step_alone(tmp_path):
    for name, seed in (("one", 1), ("two", 1), ("other", 2)):
        torch.manual_seed(time.monotonic_ns())
        train(tmp_path / name, Line(noise=1.0), steps=3, seed=seed)
    assert losses(tmp_path / "one") == losses(tmp_path / "two") != losses(tmp_path / "other")


# ── NaN ─────────────────────────────────────────────────────────────────────────────────────


def test_a_loss_that_is_no_number_is_a_named_error(tmp_path):
    with pytest.raises(Diverged, match="the loss is nan at step 4; lower learning_rate and resume"):
        train(tmp_path, Line(bad=3), steps=6)
    assert len(losses(tmp_path)) == 3


def test_weights_that_are_no_numbers_are_never_kept(tmp_path):
    with pytest.raises(Diverged, match="a weight is NaN or infinite at step 4"):
        train(tmp_path, Line(bad=3), steps=100, checkpoint_every=2, log_every=100)
    kept = [path.name for path in (tmp_path / "checkpoint").iterdir()]
    assert kept == ["step-000000002"]
    with pytest.raises(Diverged, match="a weight is NaN or infinite at step 6"):
        train(tmp_path / "no checkpoints", Line(bad=3), steps=6, log_every=100)


# ── the best weights ────────────────────────────────────────────────────────────────────────


class Scored(Line):
    """Its figure at the n-th look is the n-th of `figures`, by the step it is at."""

    steps_per_epoch = 2
    score = "f1"

    def __init__(self, figures, stop=None):
        super().__init__()
        self.figures, self.stop, self.steps = figures, stop, 0

    def loss(self, step):
        if step == self.stop:
            raise Stop
        self.steps = step + 1
        return super().loss(step)

    def evaluate(self):
        super().evaluate()
        return {"f1": self.figures[self.steps], "slope": self.model.weight.item()}

    def load_state(self, state):
        super().load_state(state)
        self.steps = {sum(range(n)): n for n in range(1, 99)}[int(self.carried.item())]


RISE_AND_FALL = {2: 10.0, 4: 30.0, 6: 20.0, 8: 29.0, 10: 25.0, 12: 40.0}


def scored_steps(folder):
    return [line["step"] for line in lines(folder) if "f1" in line]


def test_a_run_ends_when_scores_stop_rising(tmp_path):
    trainer, scores = train(tmp_path, Scored(RISE_AND_FALL), steps=12, patience=2)
    assert trainer.step == 8
    assert scored_steps(tmp_path) == [2, 4, 6, 8]
    assert scores["f1"] == 30.0


def test_the_loss_and_the_best_score_are_shown_while_training(tmp_path, monkeypatch):
    monkeypatch.setattr("relmo.training.trainer.SHOW_EVERY", 0.0)
    trainer, _ = train(tmp_path, Scored(RISE_AND_FALL), steps=12, patience=2, log_every=100)
    best = trainer.best.scores[Scored.score]
    what = readable(Scored.score)
    assert re.fullmatch(rf"loss [\d.e-]+, best {what} so far {best:.4g}", trainer._work.detail)
    assert trainer._work.may_end_early


def test_without_patience_a_run_goes_to_its_end(tmp_path):
    trainer, scores = train(tmp_path, Scored(RISE_AND_FALL), steps=12)
    assert (trainer.step, trainer.best.step, scores["f1"]) == (12, 12, 40.0)


def test_a_score_as_high_as_the_best_is_no_better(tmp_path):
    trainer, _ = train(tmp_path, Scored(dict.fromkeys(range(99), 5.0)), steps=20, patience=3)
    assert (trainer.step, trainer.best.step) == (8, 2)


def test_the_best_weights_are_taken_up_in_the_end(tmp_path):
    trainer, scores = train(tmp_path, Scored(RISE_AND_FALL), steps=10)
    assert trainer.best.step == 4
    assert trainer.task.model.weight.item() == scores["slope"]
    at_4 = next(line for line in lines(tmp_path) if "f1" in line and line["step"] == 4)
    assert scores == {"f1": 30.0, "slope": at_4["slope"]}


def test_scores_come_once_per_epoch_unless_said_otherwise(tmp_path):
    figures = dict.fromkeys(range(99), 1.0)
    train(tmp_path / "epochs", Scored(figures), epochs=3)
    assert scored_steps(tmp_path / "epochs") == [2, 4, 6]
    train(tmp_path / "steps", Scored(figures), epochs=3, evaluate_every=3)
    assert scored_steps(tmp_path / "steps") == [3, 6]


@pytest.mark.parametrize("stop", [5, 6, 7])
def test_a_run_stopped_while_it_waits_ends_where_it_would_have(tmp_path, stop):
    settings = {"steps": 12, "patience": 2, "checkpoint_every": 3}
    whole, scores = train(tmp_path / "whole", Scored(RISE_AND_FALL), **settings)
    with pytest.raises(Stop):
        train(tmp_path / "stopped", Scored(RISE_AND_FALL, stop), **settings)
    resumed, again = train(tmp_path / "stopped", Scored(RISE_AND_FALL), resume=True, **settings)
    assert again == scores
    assert (resumed.step, resumed.best) == (whole.step, whole.best)
    assert scored_steps(tmp_path / "stopped") == scored_steps(tmp_path / "whole")
    assert torch.equal(resumed.task.model.weight, whole.task.model.weight)


def test_a_run_that_ended_early_is_over_when_resumed(tmp_path):
    settings = {"steps": 12, "patience": 2, "checkpoint_every": 3}
    _, scores = train(tmp_path, Scored(RISE_AND_FALL), **settings)
    trainer, again = train(tmp_path, Scored(RISE_AND_FALL), resume=True, **settings)
    assert (trainer.step, trainer.task.evaluated, again) == (8, 0, scores)
    assert scored_steps(tmp_path) == [2, 4, 6, 8]


def test_a_longer_run_keeps_the_best_of_the_shorter_one_s_end(tmp_path):
    figures = {2: 10.0, 4: 20.0, 5: 90.0, 6: 30.0, 8: 40.0}
    train(tmp_path, Scored(figures), steps=5, checkpoint_every=1)
    trainer, scores = train(tmp_path, Scored(figures), steps=8, checkpoint_every=1, resume=True)
    assert (trainer.best.step, scores["f1"]) == (5, 90.0)
    assert trainer.task.model.weight.item() == scores["slope"]


def test_scores_that_are_no_numbers_are_a_named_error(tmp_path):
    task = Scored(dict.fromkeys(range(99), math.nan))
    with pytest.raises(Diverged, match="f1 was NaN in every evaluation at step 4; lower"):
        train(tmp_path, task, steps=4)
    assert not (tmp_path / "best.safetensors").exists()


def test_a_score_that_is_no_number_now_and_then_is_passed_over(tmp_path):
    task = Scored({2: math.nan, 4: 3.0, 6: math.nan})
    trainer, scores = train(tmp_path, task, steps=6)
    assert (trainer.best.step, scores["f1"]) == (4, 3.0)


# ── going on ────────────────────────────────────────────────────────────────────────────────


def test_a_stopped_run_goes_on_to_the_bit(tmp_path):
    settings = {"steps": 9, "checkpoint_every": 4, "evaluate_every": 3, "log_every": 1}

    class Stopping(Line):
        def loss(self, step):
            if step == 7:
                raise Stop
            return super().loss(step)

    whole, _ = train(tmp_path / "whole", Line(noise=0.5), **settings)
    with pytest.raises(Stop):
        train(tmp_path / "stopped", Stopping(noise=0.5), **settings)
    resumed, _ = train(tmp_path / "stopped", Line(noise=0.5), resume=True, **settings)
    assert losses(tmp_path / "stopped") == losses(tmp_path / "whole")
    assert [line["step"] for line in lines(tmp_path / "stopped")] == [
        line["step"] for line in lines(tmp_path / "whole")
    ]
    assert torch.equal(resumed.task.model.weight, whole.task.model.weight)
    assert resumed.task.carried.item() == whole.task.carried.item() == sum(range(9))


def test_time_goes_on_where_it_stopped(tmp_path):
    train(tmp_path, minutes=0.002, checkpoint_every=10)
    trainer, _ = train(tmp_path, minutes=0.002, checkpoint_every=10, resume=True)
    assert trainer.seconds >= 0.12
    assert len([line for line in lines(tmp_path) if "slope" in line]) == 1


def test_a_longer_run_goes_on_from_a_shorter_one(tmp_path):
    for steps in (3, 5):
        trainer, _ = train(tmp_path, steps=steps, checkpoint_every=2, resume=steps == 5)
    assert [line["step"] for line in lines(tmp_path) if "loss" in line] == [1, 2, 3, 4, 5]
    assert trainer.step == 5


def test_an_unfinished_run_is_not_begun_anew_in_its_place(tmp_path):
    train(tmp_path, steps=3, checkpoint_every=1)
    with pytest.raises(ConfigError, match="unfinished run; resume it with --resume, or"):
        train(tmp_path, steps=3)


def test_a_run_without_a_checkpoint_is_not_resumed(tmp_path):
    train(tmp_path, steps=3, checkpoint_minutes=0)
    assert not (tmp_path / "checkpoint").exists()
    with pytest.raises(ConfigError, match="has no checkpoint to resume from"):
        train(tmp_path, steps=3, resume=True)


def test_a_run_makes_a_checkpoint_at_its_end_unless_told_otherwise(tmp_path):
    train(tmp_path, steps=3)
    assert kept_steps(tmp_path) == [3]


def kept_steps(folder):
    return [int(path.name[5:]) for path in sorted((folder / "checkpoint").glob("step-*"))]


def test_checkpoints_come_by_the_clock(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("relmo.training.trainer.time", SimpleNamespace(monotonic=lambda: now[0]))
    made = []
    monkeypatch.setattr(CheckpointWriter, "write", lambda _, snapshot: made.append(snapshot.step))

    class Slow(Line):
        def loss(self, step):
            now[0] += 25.0
            return super().loss(step)

    train(tmp_path, Slow(), steps=10, checkpoint_minutes=1.5)
    assert made == [4, 8, 10]  # after 100 and 200 seconds, and at the end


def test_a_checkpoint_that_cannot_be_written_ends_the_run(tmp_path):
    (tmp_path / "checkpoint").write_text("a file")
    with pytest.raises(OutputError, match="cannot write"):
        train(tmp_path, steps=9, checkpoint_every=2)


# ── Ctrl-C and SIGTERM ──────────────────────────────────────────────────────────────────────

SETTINGS = {"steps": 9, "evaluate_every": 3, "log_every": 2, "checkpoint_minutes": 0}


class Signalled(Line):
    """Gets signals while it computes the loss of a step, or while it is evaluated after it."""

    def __init__(self, number, step=None, evaluated_at=None, times=1):
        super().__init__(noise=0.5)
        self.number, self.at, self.evaluated_at, self.times = number, step, evaluated_at, times
        self.steps = 0

    def loss(self, step):
        self.steps = step + 1
        if step == self.at:
            for _ in range(self.times):
                signal.raise_signal(self.number)
        return super().loss(step)

    def evaluate(self):
        if self.steps == self.evaluated_at:
            signal.raise_signal(self.number)
        return super().evaluate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("moment", "saved"),
    [({"step": 0}, 1), ({"step": 4}, 5), ({"step": 5}, 6), ({"step": 8}, 9),
     ({"evaluated_at": 3}, 3), ({"evaluated_at": 9}, 9)],
)  # fmt: skip
def test_a_signal_ends_a_run_after_the_step_with_a_checkpoint(tmp_path, number, moment, saved):
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    train(tmp_path / "whole", Line(noise=0.5), **SETTINGS)
    said = f"interrupted at step {saved}; everything up to step {saved} is saved in .*checkpoint"
    with pytest.raises(Interrupted, match=said) as caught:
        train(tmp_path / "stopped", Signalled(number, **moment), **SETTINGS)
    assert (caught.value.signal, caught.value.can_resume) == (number, True)
    assert kept_steps(tmp_path / "stopped") == [saved]
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
    train(tmp_path / "stopped", Line(noise=0.5), resume=True, **SETTINGS)
    wanted, found = (without_clock(tmp_path / name) for name in ("whole", "stopped"))
    assert found == wanted


def without_clock(folder):
    clock = {"seconds", "steps_per_second", "seconds_left"}
    return [{k: v for k, v in line.items() if k not in clock} for line in lines(folder)]


def test_a_signal_while_a_pending_evaluation_is_made_up_for_keeps_it_pending(tmp_path):
    for resume in (False, True):
        task = Signalled(signal.SIGTERM, evaluated_at=3)
        task.steps = 3
        with pytest.raises(Interrupted, match="at step 3"):
            train(tmp_path / "stopped", task, resume=resume, **SETTINGS)
    train(tmp_path / "stopped", Line(noise=0.5), resume=True, **SETTINGS)
    train(tmp_path / "whole", Line(noise=0.5), **SETTINGS)
    assert without_clock(tmp_path / "stopped") == without_clock(tmp_path / "whole")


def test_a_second_ctrl_c_does_not_wait(tmp_path):
    with pytest.raises(KeyboardInterrupt) as caught:
        train(tmp_path, Signalled(signal.SIGINT, step=4, times=2), **SETTINGS)
    assert not isinstance(caught.value, Interrupted)
    assert kept_steps(tmp_path) == []


def test_a_run_in_another_thread_leaves_signals_alone(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(train, tmp_path, steps=2).result()[0].step == 2


# ── the first line after resuming ───────────────────────────────────────────────────────────


def test_speed_after_resuming_is_that_of_the_steps_made_since(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("relmo.training.trainer.time", SimpleNamespace(monotonic=lambda: now[0]))

    class Ticking(Signalled):
        def loss(self, step):
            now[0] += 0.5
            return super().loss(step)

    settings = {"steps": 20, "log_every": 10}
    with pytest.raises(Interrupted):
        train(tmp_path, Ticking(signal.SIGTERM, step=6), **settings)
    now[0] += 1000
    train(tmp_path, Ticking(signal.SIGTERM), resume=True, **settings)
    logged = [line for line in lines(tmp_path) if "loss" in line]
    assert [line["steps_per_second"] for line in logged] == [2.0, 2.0]
    assert [line["seconds"] for line in logged] == [5.0, 10.0]
    assert [line["seconds_left"] for line in logged] == [5.0, 0.0]
