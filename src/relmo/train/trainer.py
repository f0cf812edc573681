"""The loop: loss, gradients, a step; now and then a log line, a score, a checkpoint.

A step depends on the weights, the optimiser, the carried state and its own number alone: random
numbers are seeded anew for each step. So a run that was killed and resumed gives the same losses,
to the bit on a CPU.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from relmo.errors import ConfigError, RelmoError
from relmo.files import explain
from relmo.train.best import Best, drop_best, load_best, read_best, save_best
from relmo.train.checkpoint import Progress, has_checkpoint, load_checkpoint, save_checkpoint
from relmo.train.distributed import (
    World,
    as_main_says,
    average_gradients,
    gather_state,
    mean_over,
    share_of,
    wait,
)
from relmo.train.optim import OptimSettings, make_optimizer, rate_at, set_rate
from relmo.train.record import append_metrics, drop_metrics_after
from relmo.train.task import Task
from relmo.train.tensorboard import TensorBoard

LEAST = {
    "accumulate": 1, "log_every": 1, "evaluate_every": 0, "patience": 0, "checkpoint_every": 0,
    "seed": 0,
}  # fmt: skip
"""Settings that are whole numbers, and from where on."""


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """How long, and how often to look."""

    epochs: float | None = None
    steps: int | None = None
    minutes: float | None = None
    """Exactly one of these three bounds the run; the learning rate's way is laid over it."""
    accumulate: int = 1
    """Steps whose gradients are added up before the weights change."""
    log_every: int = 100
    evaluate_every: int = 0
    """Steps between scores on held-out data; 0 scores at the end alone or, where the best weights
    are kept, once per epoch."""
    patience: int = 0
    """Scores without a better one after which the run ends; 0 goes to the end."""
    checkpoint_every: int = 0
    """Steps between checkpoints; 0 makes none."""
    seed: int = 0

    def __post_init__(self) -> None:
        given = [self.epochs, self.steps, self.minutes]
        if sum(value is not None for value in given) != 1 or not all(
            v is None or v > 0 for v in given
        ):
            raise ConfigError("give exactly one of epochs, steps and minutes, above zero")
        check_whole(self, LEAST)


class Diverged(RelmoError):
    """The loss or a weight is no longer a number."""


class Trainer:
    """Trains a task, in a folder of its own.

    Args:
        task: what to train.
        settings: how long.
        optim: how.
        folder: gets metrics.jsonl, checkpoint/, best.safetensors for a task whose best weights are
            kept and, where TensorBoard is installed, tensorboard/.
        world: the processes that take part.
        report: called with each line of metrics.
    """

    def __init__(
        self,
        task: Task,
        settings: TrainSettings,
        optim: OptimSettings,
        folder: Path,
        world: World | None = None,
        report: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> None:
        self.task, self.settings, self.optim = task, settings, optim
        self.folder, self.world, self.report = folder, world or World(), report
        self.optimizer = make_optimizer(task.model, optim)
        self.step = 0
        self.best = Best()
        self._saved = -1  # step of the last checkpoint
        self._board: TensorBoard | None = None  # of the main process
        self._before = 0.0  # seconds of earlier processes of this run
        self._started = time.monotonic()

    def fit(self, resume: bool = False) -> dict[str, float]:
        """Train to the end; give the last scores, or the best where the best weights are kept."""
        self._begin(resume)
        try:
            while (progress := self._agreed_progress()) < 1 and not self._is_tired():
                loss = self._train_step(progress)
                self.step += 1
                self._look(loss)
            # Where time bounds the run, a checkpoint of this very step may be from before its end.
            is_old = self._saved != self.step or self.total_steps is None
            if self.settings.checkpoint_every and is_old:
                self._save()
            self._check_weights()
            scores = {} if self._is_tired() else self._evaluate()
            return scores if self.task.score is None else self._take_best()
        finally:
            if self._board is not None:
                self._board.close()

    @property
    def seconds(self) -> float:
        """Time this run has trained, earlier processes included."""
        return self._before + time.monotonic() - self._started

    @property
    def total_steps(self) -> int | None:
        """Steps of the run; None where time bounds it."""
        if self.settings.steps is not None:
            return self.settings.steps
        if self.settings.epochs is None:
            return None
        per_epoch = self.task.steps_per_epoch / self.settings.accumulate
        return max(1, round(self.settings.epochs * per_epoch))

    @property
    def progress(self) -> float:
        """Share of the run that is done."""
        if self.total_steps is not None:
            return self.step / self.total_steps
        assert self.settings.minutes is not None
        return self.seconds / (60 * self.settings.minutes)

    def _begin(self, resume: bool) -> None:
        """Take up the last checkpoint if asked to; start the clock."""
        if resume:
            self._resume()
        elif has_checkpoint(self.folder / "checkpoint"):
            raise ConfigError(
                f"{self.folder} holds an unfinished run; resume it, or choose another folder"
            )
        if self.world.is_main:
            with explain(self.folder, "choose a folder that can be created"):
                self.folder.mkdir(parents=True, exist_ok=True)
            done = self.step if resume else -1
            is_over = self.progress >= 1
            drop_metrics_after(self.folder / "metrics.jsonl", done, is_over=is_over)
            if self.step == 0:
                drop_best(self.folder)
            self._board = TensorBoard(self.folder / "tensorboard", done)
        self._started = time.monotonic()
        self._logged = self.step, self.seconds

    def _agreed_progress(self) -> float:
        """Share of the run that is done, the same in every process."""
        if self.total_steps is not None:
            return self.progress
        return as_main_says(self.progress, self.world)

    def _train_step(self, progress: float) -> torch.Tensor:
        set_rate(self.optimizer, rate_at(progress, self.optim))
        total = torch.zeros((), device=self.world.device)
        self.task.model.train()
        for part in range(self.settings.accumulate):
            number = self.step * self.settings.accumulate + part
            torch.manual_seed(hash((self.settings.seed, number, self.world.rank)) % 2**63)
            loss = self.task.loss(number) / self.settings.accumulate
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        average_gradients(self.task.model, self.world)
        if self.optim.clip_norm:
            torch.nn.utils.clip_grad_norm_(self.task.model.parameters(), self.optim.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return total

    def _look(self, loss: torch.Tensor) -> None:
        """Log, score and save where it is time to."""
        s = self.settings
        if self.step % s.log_every == 0:
            self._log(mean_over(loss, self.world).item())
        every = self._evaluate_every
        is_time = bool(every) and self.step % every == 0
        if is_time and self._agreed_progress() < 1:  # the end has a score of its own
            self._evaluate()
        if s.checkpoint_every and self.step % s.checkpoint_every == 0:
            self._save()

    @property
    def _evaluate_every(self) -> int:
        if self.settings.evaluate_every or self.task.score is None:
            return self.settings.evaluate_every
        return max(1, self.task.steps_per_epoch // self.settings.accumulate)

    def _is_tired(self) -> bool:
        """Whether scores have not become better for too long."""
        return 0 < self.settings.patience <= self.best.waited

    def _log(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise self._diverged(f"the loss is {loss}")
        steps, seconds = self.step - self._logged[0], self.seconds - self._logged[1]
        self._logged = self.step, self.seconds
        left = (1 - self.progress) / max(self.progress, 1e-9) * self.seconds
        self._write(
            {
                "loss": loss,
                "rate": self.optimizer.param_groups[0]["lr"],
                "steps_per_second": steps / max(seconds, 1e-9),
                "seconds_left": left,
                **self.task.measures(),
            }
        )

    def _evaluate(self) -> dict[str, float]:
        """Score on the main process; time spent so does not count as training."""
        start = time.monotonic()
        scores: dict[str, float] = {}
        if self.world.is_main:
            self.task.model.eval()
            with torch.no_grad():
                scores = self.task.evaluate()
        wait(self.world)
        self._started += time.monotonic() - start
        self._write(scores)
        self._keep_best(scores)
        return scores

    def _keep_best(self, scores: dict[str, float]) -> None:
        """Write the weights down if they are better than any before."""
        if self.task.score is None:
            return
        is_better = self.best.is_beaten_by(scores, self.task.score)
        if as_main_says(is_better, self.world):
            self.best = Best(self.step, scores, 0)
            if self.world.is_main:
                save_best(self.folder, self.task.model, self.best)
        else:
            self.best = replace(self.best, waited=self.best.waited + 1)
        wait(self.world)

    def _take_best(self) -> dict[str, float]:
        """Take up the best weights; give their scores."""
        if self.best.step < 0:
            raise self._diverged(f"{self.task.score} was no number in any score")
        found = load_best(self.folder, self.task.model)
        self.best = replace(found, waited=self.best.waited)
        return found.scores

    def _write(self, values: dict[str, Any]) -> None:
        epoch = self.step * self.settings.accumulate / self.task.steps_per_epoch
        line = {"step": self.step, "epoch": round(epoch, 4), "seconds": round(self.seconds, 2)}
        if self.world.is_main:
            line |= values
            append_metrics(self.folder / "metrics.jsonl", line)
            if self._board is not None:
                self._board.write(line)
            self.report(line)

    def _check_weights(self) -> None:
        """Raise Diverged rather than keep weights that are no numbers."""
        sums = [p.detach().float().sum() for p in self.task.model.parameters()]
        if not torch.isfinite(torch.stack(sums).sum()):
            raise self._diverged("a weight is no number")

    def _diverged(self, what: str) -> Diverged:
        return Diverged(
            f"{what} at step {self.step}; lower learning_rate and resume from the last checkpoint, "
            f"or start again"
        )

    def _save(self) -> None:
        self._check_weights()
        carried = gather_state(self.task.state(), self.world)
        if self.world.is_main:
            place = Progress(self.step, self.seconds, self.best)
            save_checkpoint(
                self.folder / "checkpoint", place, self.task.model, self.optimizer, carried
            )
        self._saved = self.step
        wait(self.world)

    def _resume(self) -> None:
        found = load_checkpoint(self.folder / "checkpoint", self.task.model, self.optimizer)
        if found is not None:
            place, carried = found
            self.step, self._before, self.best = place.step, place.seconds, place.best
            self._resume_best()
            self._started, self._saved = time.monotonic(), place.step
            self.task.load_state(share_of(carried, self.world))

    def _resume_best(self) -> None:
        """Take up a best score that came after the checkpoint of its own step: that of a run's end.

        Scores of later steps are made again.
        """
        kept = None if self.task.score is None else read_best(self.folder)
        if kept is not None and self.best.step < kept.step <= self.step:
            self.best = kept


def check_whole(settings: object, least: Mapping[str, int]) -> None:
    """Raise ConfigError unless the named settings are whole numbers, none below its least."""
    for name, bound in least.items():
        value = getattr(settings, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < bound:
            raise ConfigError(f"{name} is {value!r}; a whole number from {bound} on is needed")
