"""Tasks with labelled examples: the base class of all tasks, built in or written elsewhere.

A task's own file says how examples are read, how they become a batch, what the model predicts and
how predictions are scored. This one has epochs, batches of similar lengths and mixed precision. A
class that is registered (`relmo.tasks.registry`) can be trained by `relmo.tasks.run`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from relmo.config import Count, CountOrZero, Range, Settings
from relmo.errors import ConfigError
from relmo.progress import working
from relmo.tasks.data_files import ANY, PARTS, Part, Suffixes, find_parts, need_part, stem_of
from relmo.tasks.inputs import Inputs, TokenInput, Words, keep_saved_names
from relmo.tasks.tables import NO_COLUMNS, Columns, choose_columns

Example = TypeVar("Example")
Prediction = TypeVar("Prediction")
ModelSettings = TypeVar("ModelSettings", bound=Settings)


@dataclass(frozen=True, kw_only=True)
class BatchSettings(Settings):
    """How examples are batched."""

    size: Count = 32
    """Examples per step."""
    max_length: CountOrZero = 0
    """Longer examples are left out of training; 0 keeps all."""
    sorted_together: Count = 64
    """Batches sorted by length as one group: more means less padding, fewer means more mixing.
    With 1 a batch has mixed lengths, which batch normalization needs."""
    share: Annotated[float, Range(above=0, most=1)] = 1.0
    """Share of the training examples to train on, drawn by the run's seed."""


class LabelledTask(ABC, Generic[Example, Prediction, ModelSettings]):
    """Builds a model and trains it on labelled examples: a `relmo.train` task.

    Args:
        settings: of the model.
        facts: what `facts_of` found in the training part.
        inputs: turns sentences into batches of tokens.
        tokens: the module that reads these batches; a part of the model.
        train: training examples; empty for a model that is only used.
        dev: examples that select the best weights.
        batches: how examples are batched.
        seed: of the shuffle.
    """

    score: str
    """The score of `evaluate` that selects the best weights, higher is better: "dev_f1"."""
    settings_type: type[ModelSettings]
    """The settings of the model, each with a default: the section `model` of a recipe."""
    suffixes: ClassVar[Suffixes] = ANY
    """Endings of the data files' names in order of preference; "" is any."""
    noun: ClassVar[str] = "examples"
    """What its examples are called: "sentences"."""
    splits_one_file: ClassVar[bool] = True
    """Whether one file can be its data, to be split into parts."""
    answers_lines: ClassVar[bool] = False
    """Whether `read_text` yields the examples of a line of text before it reads the next one."""
    few_recipe: ClassVar[str | None] = None
    """Name of the recipe for few examples, if there is one."""
    tables: ClassVar[tuple[str, ...]] = ()
    """Endings of the names of files that `read_table` reads."""
    usual_columns: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Names that the columns "text" and "label" of a table often have, the most telling first."""
    net: Any
    """The model, an nn.Module of the task's own type."""

    def __init__(
        self,
        settings: ModelSettings,
        facts: dict[str, Any],
        inputs: Inputs,
        tokens: TokenInput,
        train: Sequence[Example] = (),
        dev: Sequence[Example] = (),
        batches: BatchSettings | None = None,
        seed: int = 0,
    ) -> None:
        self.settings, self.inputs, self.device = settings, inputs, inputs.device
        self._tokens = tokens
        self.set_up(facts, tokens)
        is_meta = self.device.type == "meta"  # its shapes are asked for: nothing may move there
        self.model: nn.Module = self.net if is_meta else self.net.to(self.device)
        keep_saved_names(self.model)
        self.dev, self.batches, self.seed = dev, batches or BatchSettings(), seed
        limit = self.batches.max_length
        self.train = [e for e in self.prepare(train) if not limit or self.length(e) <= limit]
        self.steps_per_epoch = max(1, -(-len(self.train) // self.batches.size))
        self._epoch = -1
        self._plan: list[list[int]] = []
        self._sum = torch.zeros((), device=self.device)
        self._steps = 0

    # ── data ────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    @abstractmethod
    def read(cls, path: Path, part: Part) -> list[Example]:
        """Labelled examples of a file in the task's format."""

    @classmethod
    def read_table(cls, path: Path, columns: Columns) -> list[Example]:
        """Labelled examples of a table, from these columns, both of which are given."""
        raise NotImplementedError

    @classmethod
    def read_file(cls, path: Path, part: Part, columns: Columns) -> list[Example]:
        """Labelled examples of a file: `read_table` if columns are given, else `read`."""
        return cls.read(path, part) if columns == NO_COLUMNS else cls.read_table(path, columns)

    @classmethod
    def columns_of(
        cls, path: Path, asked: Columns, needed: Sequence[str] = ("text", "label")
    ) -> Columns:
        """The columns of a file to read, if it is a table; none of any other file."""
        if cls.is_table(path):
            return choose_columns(path, asked, cls.usual_columns, needed)
        if asked == NO_COLUMNS:
            return asked
        ends = " or ".join(cls.tables)
        known = f"{path.name} does not end in {ends}" if ends else "this task reads none"
        raise ConfigError(f"--text and --label name columns of a table, but {known}")

    @classmethod
    def is_table(cls, path: Path) -> bool:
        """Whether a file is read by `read_table`."""
        return bool(cls.tables) and stem_of(path).endswith(cls.tables)

    @classmethod
    def parts(cls, folder: Path, columns: Columns = NO_COLUMNS) -> dict[Part, list[Example]]:
        """Examples of each part of a data folder, one file each; the test part may be missing."""
        for part in ("train", "dev"):
            need_part(folder, part, cls.suffixes)
        files = find_parts(folder, cls.suffixes)
        found = {
            part: cls.read_file(files[part], part, columns) if part in files else []
            for part in PARTS
        }
        facts = cls.facts_of(found["train"])
        for part in files.keys() - {"train"}:
            cls.check(files[part], found[part], facts)
        return found

    @classmethod
    @abstractmethod
    def facts_of(cls, train: Sequence[Example]) -> dict[str, Any]:
        """What a model must know of its training data besides its weights, as JSON."""

    @classmethod
    def check(cls, path: Path, examples: Sequence[Example], facts: Mapping[str, Any]) -> None:
        """Raise DataError if examples of a file do not fit the training part's facts.

        By default all do.
        """

    @classmethod
    def check_training(cls, train: Sequence[Example]) -> None:
        """Raise TextError if nothing can be learned from these examples; by default never."""

    @classmethod
    @abstractmethod
    def sentences(cls, example: Example) -> list[Words]:
        """The sentences of an example that the model reads."""

    @classmethod
    def split_by(cls, example: Example) -> tuple[str, Any]:
        """What decides where an example goes when one file is split into parts.

        Examples with the same first value are spread evenly over the parts; those with the same
        second one go to the same part.
        """
        return "", tuple(cls.sentences(example))

    @abstractmethod
    def read_text(self, lines: Iterable[str]) -> Iterator[Example]:
        """Unlabelled examples from plain text."""

    def prepare(self, train: Sequence[Example]) -> Sequence[Example]:
        """The examples to train on; by default all, unchanged."""
        return train

    def length(self, example: Example) -> int:
        """Words of the longest sentence; batches are made of examples of similar length."""
        return max(map(len, self.sentences(example)), default=0)

    # ── the model ───────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def set_up(self, facts: dict[str, Any], tokens: TokenInput) -> None:
        """Take over the facts and build the model, `self.net`."""

    def model_inputs(self, examples: Sequence[Example]) -> tuple[Any, ...]:
        """What the model reads: one batch, all first sentences before all second ones."""
        by_place = zip(*map(self.sentences, examples), strict=True)
        return (self.inputs(list(chain.from_iterable(by_place))),)

    @abstractmethod
    def targets(self, examples: Sequence[Example]) -> tuple[Tensor, ...]:
        """What the model should predict, on the device."""

    def batch_loss(self, examples: Sequence[Example]) -> Tensor:
        """The mean loss of a batch."""
        loss: Tensor = self.net.loss(*self.model_inputs(examples), *self.targets(examples))
        return loss

    @abstractmethod
    def predict_batch(self, examples: Sequence[Example]) -> list[Prediction]:
        """The prediction for each example of a batch, from its text alone."""

    @abstractmethod
    def scores(
        self, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> dict[str, float]:
        """Scores of predictions against the labels, in percent."""

    def review(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> None:
        """Say so if the predictions for a test set show that nothing was learned."""

    def counts(
        self, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> list[Any] | None:
        """Per-example counts that add up to the scores, for significance tests; None without."""
        return None

    @abstractmethod
    def describe(self, example: Example, prediction: Prediction) -> dict[str, Any]:
        """A prediction as JSON."""

    @abstractmethod
    def render(self, example: Example, prediction: Prediction) -> str:
        """A prediction as text."""

    # ── training ────────────────────────────────────────────────────────────────────────────────

    def loss(self, step: int) -> Tensor:
        """The mean loss of one step."""
        with self.arithmetic():
            loss = self.batch_loss(self.examples_of(step)).float()
        self._sum += loss.detach()
        self._steps += 1
        return loss

    def measures(self) -> dict[str, float]:
        """The mean loss since the last call."""
        mean = self._sum.item() / max(self._steps, 1)
        self._sum.zero_()
        self._steps = 0
        return {"mean_loss": mean}

    def evaluate(self) -> dict[str, float]:
        """Scores on the development examples."""
        return {f"dev_{k}": v for k, v in self.score_on(self.dev).items()}

    def mixes(self) -> dict[str, dict[str, Any]]:
        """The learned shares of ELMo's layers and gamma, by place."""
        return self._tokens.mixes()

    def state(self) -> dict[str, Tensor]:
        """The sums of the next log line; nothing but the weights is carried from step to step."""
        return {"loss_sum": self._sum.view(1, 1), "loss_steps": torch.tensor([[self._steps]])}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore the sums; a checkpoint of an earlier version has none."""
        if "loss_sum" in state:
            self._sum = state["loss_sum"].to(self.device).view(())
            self._steps = int(state["loss_steps"])

    # ── use ─────────────────────────────────────────────────────────────────────────────────────

    def score_on(self, examples: Sequence[Example]) -> dict[str, float]:
        """Scores of the model on labelled examples."""
        return self.scores(examples, self.predict(examples))

    @torch.no_grad()
    def predict(self, examples: Sequence[Example], show: bool = True) -> list[Prediction]:
        """The prediction for each example, in order; `show` shows progress."""
        self.model.eval()
        order = sorted(range(len(examples)), key=lambda i: self.length(examples[i]))
        found: dict[int, Prediction] = {}
        with working(f"{self.noun} predicted", len(order), show=show) as work:
            for first in range(0, len(order), self.batches.size):
                part = order[first : first + self.batches.size]
                with self.arithmetic():
                    predictions = self.predict_batch([examples[i] for i in part])
                found.update(zip(part, predictions, strict=True))
                work.advance(len(part))
        return [found[i] for i in range(len(examples))]

    def examples_of(self, step: int) -> list[Example]:
        """The examples of a step, which depend on the seed and the number of the step alone."""
        epoch, number = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._plan, self._epoch = self._plan_epoch(epoch), epoch
        return [self.train[i] for i in self._plan[number]]

    def arithmetic(self) -> AbstractContextManager[None]:
        """bfloat16 autocast on a GPU, float32 elsewhere."""
        on_gpu = self.device.type == "cuda"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=on_gpu)

    def _plan_epoch(self, epoch: int) -> list[list[int]]:
        """Batches of an epoch: shuffled, sorted by length within groups, cut, shuffled again."""
        rng = np.random.default_rng((self.seed, epoch))
        order = rng.permutation(len(self.train)).tolist()
        size, part = self.batches.size, self.batches.sorted_together * self.batches.size
        batches: list[list[int]] = []
        for first in range(0, len(order), part):
            near = sorted(order[first : first + part], key=lambda i: self.length(self.train[i]))
            batches += [near[k : k + size] for k in range(0, len(near), size)]
        return [batches[i] for i in rng.permutation(len(batches))]


AnyTask = LabelledTask[Any, Any, Any]
