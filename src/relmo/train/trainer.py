"""The training loop: loss, gradients, update; at intervals a log line, scores, a checkpoint.

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

from relmo.config import Count, CountOrZero, Positive, Settings
from relmo.errors import ConfigError, RelmoError
from relmo.files import explain, make_folder
from relmo.train.checkpoint import Best, Progress, load_checkpoint, save_checkpoint
from relmo.train.distributed import World
from relmo.train.optim import OptimSettings, make_optimizer, set_rate, trained_parameters
from relmo.train.run import Run, TensorBoard


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
    """Steps between checkpoints; 0 makes none."""
    seed: CountOrZero = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if [self.epochs, self.steps, self.minutes].count(None) != 2:
            raise ConfigError("give exactly one of epochs, steps and minutes")


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
        self._board: TensorBoard | None = None  # of the main process
        self._before = 0.0  # seconds of earlier processes of this run
        self._started = time.monotonic()

    def fit(self, resume: bool = False) -> dict[str, float]:
        """Train to the end; return the last scores, or the best if the best weights are kept."""
        self._begin(resume)
        try:
            while (progress := self._progress()) < 1 and not self._is_out_of_patience():
                loss = self._train_step(progress)
                self.step += 1
                self._after_step(loss)
            # If time bounds the run, a checkpoint of this very step may predate its end.
            is_old = self._saved != self.step or self.total_steps is None
            if self.settings.checkpoint_every and is_old:
                self._save()
            self._check_weights()
            scores = {} if self._is_out_of_patience() else self._evaluate()
            if self.task.score is None:
                return scores
            if self.best.step < 0:
                raise self._diverged(f"{self.task.score} was NaN in every evaluation")
            found = self.run.load_best(self.task.model)
            self.best = replace(found, waited=self.best.waited)
            return found.scores
        finally:
            if self._board is not None:
                self._board.close()

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
        makes_checkpoints = bool(self.settings.checkpoint_every)
        self.run.check_start(resume=resume, makes_checkpoints=makes_checkpoints)
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
        self._started = time.monotonic()
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
        """Log, evaluate and save a checkpoint when due."""
        s = self.settings
        if self.step % s.log_every == 0:
            self._log(self.world.mean(loss).item())
        every = s.evaluate_every
        if not every and self.task.score is not None:
            every = max(1, self.task.steps_per_epoch // s.accumulate)
        is_due = bool(every) and self.step % every == 0
        if is_due and self._progress() < 1:  # the end is evaluated anyway
            self._evaluate()
        if s.checkpoint_every and self.step % s.checkpoint_every == 0:
            self._save()

    def _is_out_of_patience(self) -> bool:
        return 0 < self.settings.patience <= self.best.waited

    def _log(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise self._diverged(f"the loss is {loss}")
        steps, seconds = self.step - self._logged[0], self.seconds - self._logged[1]
        self._logged, progress = (self.step, self.seconds), self._progress()
        self._write(
            {
                "loss": loss,
                "rate": self.optimizer.param_groups[0]["lr"],
                "steps_per_second": steps / max(seconds, 1e-9),
                "seconds_left": (1 - progress) / max(progress, 1e-9) * self.seconds,
                **self.task.measures(),
            }
        )

    def _evaluate(self) -> dict[str, float]:
        """Compute scores on the main process and, if they are the best so far, save the weights.

        The time for the scores does not count as training.
        """
        start = time.monotonic()
        scores: dict[str, float] = {}
        if self.world.is_main:
            self.task.model.eval()
            with torch.no_grad():
                scores = self.task.evaluate()
        self.world.wait()
        self._started += time.monotonic() - start
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
        self._check_weights()
        carried, model = self.world.gather(self.task.state()), self.task.model
        if self.world.is_main:
            progress = Progress(self.step, self.seconds, self.best)
            save_checkpoint(self.run.checkpoints, progress, model, self.optimizer, carried)
        self._saved = self.step
        self.world.wait()

    def _resume(self) -> None:
        """Load the last checkpoint, if there is one."""
        found = load_checkpoint(self.run.checkpoints, self.task.model, self.optimizer)
        if found is None:
            return
        progress, carried = found
        self.step, self._before, self.best = progress.step, progress.seconds, progress.best
        self._started, self._saved = time.monotonic(), progress.step
        self.task.load_state(self.world.share(carried))
        # The scores of a run's end come after the checkpoint of the same step; those of later
        # steps are computed again.
        kept = None if self.task.score is None else self.run.read_best()
        if kept is not None and self.best.step < kept.step <= self.step:
            self.best = kept
