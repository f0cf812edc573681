"""The training loop: loss, gradients, update; at intervals a log line, scores, a checkpoint.

Ctrl-C and SIGTERM end the loop after the step that is being made, with a checkpoint.

A step depends only on the weights, the optimizer, the carried state and its own number: random
numbers are seeded anew for each step. So a run that was killed and resumed repeats the losses of
an uninterrupted one, bit for bit on a CPU.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from relmo.config import Count, CountOrZero, NonNegative, Positive, Settings, shown
from relmo.errors import ConfigError, Interrupted, RelmoError
from relmo.files import explain, make_folder
from relmo.progress import Work, readable, tell, working
from relmo.training.checkpoint import (
    Best,
    CheckpointWriter,
    Progress,
    load_checkpoint,
    take_snapshot,
)
from relmo.training.distributed import World
from relmo.training.optim import OptimSettings, make_optimizer, set_rate, trained_parameters
from relmo.training.run import Run, TensorBoard
from relmo.training.stopping import StopRequest

AGREE_EVERY = 10
"""Steps after which several processes agree whether to save a checkpoint or to stop."""
SHOW_EVERY = 1.0
"""Seconds between losses shown; each makes a GPU wait."""
GO_ON, SAVE, STOP = range(3)


class Task(Protocol):
    """Something to train. A step's loss depends only on its number, the weights and `state`."""

    steps_per_epoch: int

    @property
    def score(self) -> str | None:
        """The score, higher is better, whose best weights are kept; None keeps the last ones."""

    @property
    def model(self) -> nn.Module:
        """The module to train."""

    def loss(self, step: int) -> Tensor:
        """The mean loss of one step, ready for `backward`."""

    def measures(self) -> dict[str, float]:
        """Measures of the last steps for the log, by name."""

    def evaluate(self) -> dict[str, float]:
        """Scores on held-out data."""

    def state(self) -> dict[str, Tensor]:
        """What is carried from step to step besides the weights; rows along dimension 1."""

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore what `state` returned."""


MOST = 2**63 - 1
"""The largest seed of PyTorch; no run is so long."""


@dataclass(frozen=True, kw_only=True)
class TrainSettings(Settings):
    """Length and intervals of a run."""

    epochs: Positive | None = None
    steps: Count | None = None
    minutes: Positive | None = None
    """Exactly one of these three bounds the run; the learning rate's schedule spans it."""
    accumulate: Count = 1
    """Steps whose gradients are added up for one update of the weights."""
    log_every: Count = 100
    evaluate_every: CountOrZero = 0
    """Steps between evaluations on held-out data; 0 evaluates only at the end or, if the best
    weights are kept, once per epoch."""
    patience: CountOrZero = 0
    """Evaluations without a better score after which the run ends; 0 never ends it early."""
    checkpoint_every: CountOrZero = 0
    """Steps between checkpoints; 0 makes none by the number of steps."""
    checkpoint_minutes: NonNegative = 5.0
    """Minutes between checkpoints; 0 makes none by the clock. An interrupted run makes one at any
    rate."""
    seed: CountOrZero = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if [self.epochs, self.steps, self.minutes].count(None) != 2:
            raise ConfigError("give exactly one of epochs, steps and minutes")
        for name in ("epochs", "steps", "minutes", "seed"):
            if (value := getattr(self, name) or 0) > MOST:  # infinity, too
                raise ConfigError(f"{name} must be a number ≤ {MOST:,}, got {shown(value)}")

    @property
    def makes_checkpoints(self) -> bool:
        """Whether checkpoints are made besides that of an interruption."""
        return bool(self.checkpoint_every or self.checkpoint_minutes)


class Diverged(RelmoError):
    """The loss or a weight became NaN or infinite."""


class Trainer:
    """Trains a task and writes its run: metrics, checkpoints and, if kept, the best weights.

    `report` is called with each line of metrics.
    """

    def __init__(
        self,
        task: Task,
        settings: TrainSettings,
        optim: OptimSettings,
        run: Run,
        world: World | None = None,
        report: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> None:
        self.task, self.settings, self.optim = task, settings, optim
        self.run, self.world, self.report = run, world or World(), report
        self.optimizer = make_optimizer(task.model, optim)
        self._trained = trained_parameters(task.model)
        self.step = 0
        self.best = Best()
        self._saved = -1  # step of the last checkpoint
        self._saved_at = self._started = time.monotonic()
        self._is_pending = False  # whether an evaluation was interrupted
        self._board: TensorBoard | None = None  # of the main process
        self._before = 0.0  # seconds of earlier processes of this run
        self._writer = CheckpointWriter(run.checkpoints)
        self._work = Work("training steps")
        self._shown_at = 0.0  # when the last loss was shown
        self._stop = StopRequest(self._say_stopping)

    def fit(self, resume: bool = False) -> dict[str, float]:
        """Train to the end; return the last scores, or the best if the best weights are kept.

        Raises:
            Interrupted: Ctrl-C or SIGTERM came; the message says what was saved.
        """
        self._begin(resume)
        is_main = self.world.is_main
        try:
            total, done, first = self.total_steps, self.step, self._progress()
            shown = working("training steps", total, done, show=is_main, first=first)
            with shown as self._work, self._stop:
                self._work.may_end_early = self.settings.patience > 0
                scores = self._fit()
            ended_early = self._is_out_of_patience() and self._progress() < 1  # in all processes
            if is_main and ended_early:
                tell(self._why_it_ended())
            return scores
        finally:
            self._writer.close()
            if self._board is not None:
                self._board.close()

    def _fit(self) -> dict[str, float]:
        if self._is_pending and self._progress() < 1:
            self._evaluate()
            self._stop_if(self._decide(agree=True))
        while (progress := self._progress()) < 1 and not self._is_out_of_patience():
            loss = self._train_step(progress)
            self.step += 1
            self._after_step(loss)
        # If time bounds the run, a checkpoint of this very step may predate its end.
        is_old = self._saved != self.step or self.total_steps is None
        if self.settings.makes_checkpoints and is_old:
            self._save()
        self._writer.wait()
        self._check_weights()
        scores = {} if self._is_out_of_patience() else self._evaluate()
        self._stop_if(self._decide(agree=True))
        if self.task.score is None:
            return scores
        if self.best.step < 0:
            raise self._diverged(f"{self.task.score} was NaN in every evaluation")
        found = self.run.load_best(self.task.model)
        self.best = replace(found, waited=self.best.waited)
        return found.scores

    @property
    def seconds(self) -> float:
        """Training time of this run, earlier processes included."""
        return self._before + time.monotonic() - self._started

    @property
    def total_steps(self) -> int | None:
        """Steps of the run; None if time bounds it."""
        if self.settings.epochs is None:
            return self.settings.steps
        per_epoch = self.task.steps_per_epoch / self.settings.accumulate
        return max(1, round(self.settings.epochs * per_epoch))

    def _progress(self) -> float:
        """Fraction of the run that is completed, the same in every process."""
        if self.total_steps is not None:
            return self.step / self.total_steps
        assert self.settings.minutes is not None
        return self.world.from_main(self.seconds / (60 * self.settings.minutes))

    def _begin(self, resume: bool) -> None:
        """Load the last checkpoint if asked to, tidy the folder, start the clock."""
        self.run.check_start(resume=resume)
        if resume:
            self._resume()
        is_over = self._progress() >= 1
        if self.world.is_main:
            make_folder(self.run.folder)
            done = self.step if resume else -1
            self.run.drop_metrics_after(done, is_over=is_over)
            if self.step == 0:
                with explain(self.run.best_path):  # of an earlier run
                    self.run.best_path.unlink(missing_ok=True)
            self._board = TensorBoard(self.run.folder / "tensorboard", done)
        self._started = self._saved_at = time.monotonic()
        self._logged = self.step, self.seconds

    def _train_step(self, progress: float) -> Tensor:
        set_rate(self.optimizer, progress, self.optim)
        total = torch.zeros((), device=self.world.device)
        self.task.model.train()
        for part in range(self.settings.accumulate):
            number = self.step * self.settings.accumulate + part
            torch.manual_seed(hash((self.settings.seed, number, self.world.rank)) % 2**63)
            loss = self.task.loss(number) / self.settings.accumulate
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        self.world.average_gradients(self.task.model)
        if self.optim.clip_norm:
            nn.utils.clip_grad_norm_(self._trained, self.optim.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return total

    def _after_step(self, loss: Tensor) -> None:
        """Log, evaluate and save a checkpoint when due; stop if asked to."""
        s, work = self.settings, self._work
        work.done = self.step
        if self.total_steps is None:
            work.share = self.seconds / (60 * (s.minutes or 1))
        if self.step % s.log_every == 0:
            self._log(self.world.mean(loss).item())
        if time.monotonic() - self._shown_at >= SHOW_EVERY:
            self._show(loss.item())
        every = s.evaluate_every
        if not every and self.task.score is not None:
            every = max(1, self.task.steps_per_epoch // s.accumulate)
        is_due = bool(every) and self.step % every == 0
        if is_due and self._progress() < 1:  # the end is evaluated anyway
            self._evaluate()
        decision = self._decide(agree=self._is_pending)
        is_due = bool(s.checkpoint_every) and self.step % s.checkpoint_every == 0
        if is_due or decision == SAVE:
            self._save()
        self._stop_if(decision)

    def _decide(self, agree: bool = False) -> int:
        """GO_ON, SAVE or STOP: what the main process decides, in all of them.

        Agreeing takes time, so several processes do it every few steps, unless they must.
        """
        if self.world.size > 1 and self.step % AGREE_EVERY and not agree:
            return GO_ON
        decision, pause = GO_ON, 60 * self.settings.checkpoint_minutes
        if pause and time.monotonic() - self._saved_at >= pause:
            decision = SAVE
        if self._stop.signal is not None:
            decision = STOP
        return int(self.world.from_main(decision))

    def _stop_if(self, decision: int) -> None:
        """Raise Interrupted if the decision is to stop; the checkpoint is written first."""
        if decision != STOP:
            return
        if self._saved != self.step:
            self._save()
        self._writer.wait()
        self.world.wait()  # whoever leaves first may have the others ended
        text = f"interrupted at step {self.step:,}; {self.run.what_is_safe()}"
        raise Interrupted(text, can_resume=True, cause=self._stop.signal)

    def _say_stopping(self) -> None:
        self._work.detail = "stopping: a checkpoint is written after this step"
        self._work.is_stopping = True

    def _is_out_of_patience(self) -> bool:
        return 0 < self.settings.patience <= self.best.waited

    def _why_it_ended(self) -> str:
        """A line about a run that was out of patience."""
        times, best = self.settings.patience, readable(self.task.score or "score")
        bound = "" if self.total_steps is None else f" of {self.total_steps:,}"
        return (
            f"relmo: training ended at step {self.step:,}{bound}: the {best} has not improved in "
            f"{times} evaluations (training.patience)"
        )

    def _log(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise self._diverged(f"the loss is {loss}")
        steps, seconds = self.step - self._logged[0], self.seconds - self._logged[1]
        self._logged, progress = (self.step, self.seconds), self._progress()
        bound = {"may_end_early": True} if self.settings.patience else {}
        self._write(
            {
                "loss": loss,
                "rate": self.optimizer.param_groups[0]["lr"],
                "steps_per_second": steps / max(seconds, 1e-9),
                "seconds_left": (1 - progress) / max(progress, 1e-9) * self.seconds,
                **bound,
                **self.task.measures(),
            }
        )

    def _show(self, loss: float) -> None:
        """Show the loss and the best score so far beside the number of steps."""
        self._shown_at, name = time.monotonic(), self.task.score
        if self._stop.signal is None:
            self._work.detail = f"loss {loss:.3g}"
            if name is not None and name in self.best.scores:
                best = f"best {readable(name)} so far {self.best.scores[name]:.4g}"
                self._work.detail += f", {best}"

    def _evaluate(self) -> dict[str, float]:
        """Compute scores on the main process and, if they are the best so far, save the weights.

        The time for the scores does not count as training. A signal interrupts the evaluation,
        which is made again when the run is resumed; there are no scores then.
        """
        start, is_interrupted = time.monotonic(), False
        scores: dict[str, float] = {}
        if self.world.is_main:
            self.task.model.eval()
            try:
                with self._stop.at_once(), working("evaluating"), torch.no_grad():
                    scores = self.task.evaluate()
            except KeyboardInterrupt:
                if self._stop.signal is None:
                    raise
                is_interrupted = True
        self.world.wait()
        self._started += time.monotonic() - start
        self._is_pending = bool(self.world.from_main(is_interrupted))
        if self._is_pending:
            return {}
        self._write(scores)
        if self.task.score is None:
            return scores
        if self.world.from_main(self.best.is_beaten_by(scores, self.task.score)):
            self.best = Best(self.step, scores, 0)
            if self.world.is_main:
                self.run.save_best(self.task.model, self.best)
        else:
            self.best = replace(self.best, waited=self.best.waited + 1)
        self.world.wait()
        return scores

    def _write(self, values: dict[str, Any]) -> None:
        if self._board is None:  # another process logs
            return
        epoch = self.step * self.settings.accumulate / self.task.steps_per_epoch
        line = {"step": self.step, "epoch": round(epoch, 4), "seconds": round(self.seconds, 2)}
        line |= values
        self.run.append_metrics(line)
        self._board.write(line)
        self.report(line)

    def _check_weights(self) -> None:
        """Raise Diverged rather than keep weights that are NaN or infinite."""
        sums = [p.detach().float().sum() for p in self.task.model.parameters()]
        if not torch.isfinite(torch.stack(sums).sum()):
            raise self._diverged("a weight is NaN or infinite")

    def _diverged(self, what: str) -> Diverged:
        return Diverged(
            f"{what} at step {self.step}; lower learning_rate and resume from the last checkpoint, "
            f"or start again"
        )

    def _save(self) -> None:
        """Copy what a checkpoint holds; a thread writes it while training goes on."""
        self._check_weights()
        carried = self.world.gather(self.task.state())
        if self.world.is_main:
            progress = Progress(self.step, self.seconds, self.best, self._is_pending)
            self._writer.write(take_snapshot(progress, self.task.model, self.optimizer, carried))
        self._saved, self._saved_at = self.step, time.monotonic()

    def _resume(self) -> None:
        """Load the last checkpoint."""
        found = load_checkpoint(self.run.checkpoints, self.task.model, self.optimizer)
        assert found is not None, "check_start makes sure that there is one"
        progress, carried = found
        self.step, self._before, self.best = progress.step, progress.seconds, progress.best
        self._saved, self._is_pending = progress.step, progress.is_pending
        self.task.load_state(self.world.share(carried))
        # The scores of a run's end come after the checkpoint of the same step; those of later
        # steps are computed again.
        kept = None if self.task.score is None else self.run.read_best()
        if kept is not None and self.best.step < kept.step <= self.step:
            self.best = kept
