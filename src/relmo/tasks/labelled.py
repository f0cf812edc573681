"""Tasks with labelled examples: the base class of all tasks, built in or written elsewhere.

A task's own file says how examples are read, how they become a batch, what the model predicts and
how predictions are scored. This one has epochs, batches of similar lengths and mixed precision. A
class that is registered (`relmo.tasks.registry`) can be trained by `relmo.tasks.run`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from relmo.config import Count, CountOrZero, Range, Settings
from relmo.errors import ConfigError
from relmo.progress import working
from relmo.tasks.calibration import Judged, best_temperature, calibration_error
from relmo.tasks.data_files import ANY, PARTS, Part, Suffixes, find_parts, need_part, stem_of
from relmo.tasks.inputs import Inputs, InputSettings, TokenInput, Words, keep_saved_names
from relmo.tasks.mistakes import TaskError
from relmo.tasks.tables import NO_COLUMNS, Columns, choose_columns

Example = TypeVar("Example")
Prediction = TypeVar("Prediction")
Found = TypeVar("Found")
ModelSettings = TypeVar("ModelSettings", bound=Settings)
MAX_PADDED = 2**15
"""Tokens of a batch that is only read, padding included: one long example must not stretch many."""
MAX_JUDGED = 2000
"""Examples by which scores are calibrated; of more, evenly spaced ones."""


@dataclass(frozen=True, kw_only=True)
class BatchSettings(Settings):
    """How examples are batched."""

    size: Count = 32
    """Examples per step; groups of them where a task reads some together."""
    max_length: CountOrZero = 0
    """Longer examples are left out of training; 0 keeps all."""
    sorted_together: Count = 64
    """Batches sorted by length as one group: more means less padding, fewer means more mixing.
    With 1 a batch has mixed lengths, which batch normalization needs."""
    share: Annotated[float, Range(above=0, most=1)] = 1.0
    """Share of the training examples to train on, drawn by the run's seed."""


class LabelledTask(ABC, Generic[Example, Prediction, ModelSettings]):
    """Builds a model and trains it on labelled examples: a `relmo.training` task.

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
    text_names: ClassVar[tuple[str, ...]] = ("text",)
    """The texts of an input: ("question", "text") has two. Offsets are into the last one."""
    result_name: ClassVar[str] = "answer"
    """What a text's results are called in JSON: "entities"."""
    has_one_result: ClassVar[bool] = True
    """Whether an input has one result, or None, instead of a list of them."""
    reads_documents: ClassVar[bool] = False
    """Whether its results span sentences, so that a document should be read whole."""
    few_recipe: ClassVar[str | None] = None
    """Name of the recipe for few examples, if there is one."""
    tables: ClassVar[tuple[str, ...]] = ()
    """Endings of the names of files that `read_table` reads."""
    usual_columns: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Names that the columns "text" and "label" of a table often have, the most telling first."""
    net: Any
    """The model, an nn.Module of the task's own type."""
    temperature: float = 1.0
    """By which scores are divided before they become probabilities."""
    uncounted: tuple[str, ...] = ()
    """Labels that its scores leave out."""

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
        self._groups = self._grouped(self.train)
        kinds = Counter(self.kind(self.train[group[0]]) for group in self._groups)
        size = self.batches.size
        self.steps_per_epoch = max(1, sum(-(-count // size) for count in kinds.values()))
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
    def check_input(cls, settings: InputSettings, has_elmo: bool) -> None:
        """Raise ConfigError if the task's model cannot read this input; by default it can."""

    @classmethod
    @abstractmethod
    def sentences(cls, example: Example) -> list[Words]:
        """The sentences of an example that the model reads."""

    @classmethod
    def split_by(cls, example: Example) -> tuple[str, Any]:
        """What decides where an example goes when one file is split into parts.

        Examples with the same first value are spread evenly over the parts; those with the same
        second one go to the same part, which is the training part if that is None.
        """
        return "", tuple(cls.sentences(example))

    @abstractmethod
    def read_input(self, *texts: str) -> list[Example]:
        """Unlabelled examples of one input, as many texts as `text_names`; none without words."""

    def read_inputs(self, inputs: Sequence[tuple[str, ...]]) -> list[list[Example]]:
        """The unlabelled examples of each input."""
        return [self.read_input(*texts) for texts in inputs]

    def prepare(self, train: Sequence[Example]) -> Sequence[Example]:
        """The examples to train on; by default all, unchanged."""
        return train

    def read_together(self, example: Example) -> Hashable:
        """What training examples share that are always in one batch; None reads one by itself."""
        return None

    def kind(self, example: Example) -> Hashable:
        """What all training examples of a batch share; by default nothing."""
        return None

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

    def extra_scores(
        self, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> dict[str, float]:
        """Scores, in percent, for which the model must be asked more than these predictions.

        By default there are none.
        """
        return {}

    def review(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> None:
        """Say so if the predictions for a test set show that nothing was learned."""

    def counts(
        self, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> list[Any] | None:
        """Per-example counts that add up to the scores, for significance tests; None without."""
        return None

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
        found = self.score_on(self.dev, what=f"evaluating: dev {self.noun}")
        return {f"dev_{name}": value for name, value in found.items()}

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

    def score_on(self, examples: Sequence[Example], what: str = "") -> dict[str, float]:
        """Scores of the model on labelled examples; progress is shown as that of `what`."""
        found = self.predict(examples, what=what)
        return {**self.scores(examples, found), **self.extra_scores(examples, found)}

    def predict(
        self, examples: Sequence[Example], show: bool = True, what: str = ""
    ) -> list[Prediction]:
        """The prediction for each example, in order; `show` shows progress as that of `what`."""
        what = what or f"{self.noun} predicted"
        return self._in_batches(self.predict_batch, examples, what if show else None)

    def answer(self, examples: Sequence[Example]) -> list[list[Any]]:
        """The results of each example (`relmo.tasks.results`), in order."""
        return self._in_batches(self.answer_batch, examples)

    def answer_batch(self, examples: Sequence[Example]) -> list[list[Any]]:
        """The results of each example of a batch; by default the bare prediction is the result."""
        if not self.has_scores:
            return [[prediction] for prediction in self.predict_batch(examples)]
        return self.results(examples, self.outputs(examples), self.temperature)

    @torch.no_grad()
    def _in_batches(
        self,
        ask: Callable[[Sequence[Example]], Sequence[Found]],
        examples: Sequence[Example],
        what: str | None = None,
    ) -> list[Found]:
        """What batches of similar lengths are answered, in the order of the examples.

        Progress is shown as that of `what`, if given.
        """
        self.model.eval()
        lengths = [self.length(example) for example in examples]
        found: dict[int, Found] = {}
        with working(what or "", len(examples), show=what is not None) as work:
            for part in batches_by_length(lengths, self.batches.size):
                with self.arithmetic():
                    answers = ask([examples[i] for i in part])
                found.update(zip(part, answers, strict=True))
                work.advance(len(part))
        return [found[i] for i in range(len(examples))]

    # ── scores of results ───────────────────────────────────────────────────────────────────────

    has_scores: ClassVar[bool] = False
    """Whether results have scores: `outputs`, `results` and `is_right` are defined."""

    def outputs(self, examples: Sequence[Example]) -> Any:  # noqa: ANN401 - the model's own
        """What the model says of a batch: that from which results follow at any temperature."""
        return self.net(*self.model_inputs(examples))

    def results(
        self,
        examples: Sequence[Example],
        outputs: Any,  # noqa: ANN401 - the model's own
        temperature: float,
    ) -> list[list[Any]]:
        """The results of each example of a batch, with their scores at a temperature."""
        raise NotImplementedError

    def is_right(self, example: Example, result: Any) -> bool:  # noqa: ANN401
        """Whether a result is that of the labelled example."""
        raise NotImplementedError

    def judged(
        self,
        examples: Sequence[Example],
        outputs: Any,  # noqa: ANN401 - the model's own
        temperature: float,
    ) -> Judged:
        """Scores of a batch's results, and which are right."""
        found = self.results(examples, outputs, temperature)
        pairs = ((e, result) for e, each in zip(examples, found, strict=True) for result in each)
        return [(result.score, self.is_right(example, result)) for example, result in pairs]

    def calibrate(self, examples: Sequence[Example]) -> None:
        """Choose the temperature by labelled examples that were not trained on."""
        if self.has_scores and examples:
            self.temperature = best_temperature(self._judge(examples))

    def calibration_error(self, examples: Sequence[Example]) -> dict[str, float]:
        """The expected calibration error on labelled examples; {} for results without scores."""
        if not (self.has_scores and examples):
            return {}
        return {"calibration_error": calibration_error(self._judge(examples)(self.temperature))}

    def calibration(self) -> dict[str, float]:
        """What `calibrate` found, to be kept with the weights; {} for results without scores."""
        return {"temperature": self.temperature} if self.has_scores else {}

    def use_calibration(self, found: Mapping[str, float]) -> None:
        """Take over what `calibration` returned."""
        self.temperature = found.get("temperature", 1.0)

    @torch.no_grad()
    def _judge(self, examples: Sequence[Example]) -> Callable[[float], Judged]:
        """The results of some examples at a temperature; the model reads them once."""
        self.model.eval()
        kept = examples[:: -(-len(examples) // MAX_JUDGED)]
        parts = batches_by_length([self.length(example) for example in kept], self.batches.size)
        pairs = []
        with working(f"calibration: {self.noun} read", len(kept)) as work, self.arithmetic():
            for part in parts:
                batch = [kept[i] for i in part]
                pairs.append((batch, self.outputs(batch)))
                work.advance(len(batch))
        return lambda t: [each for batch, said in pairs for each in self.judged(batch, said, t)]

    # ── errors ──────────────────────────────────────────────────────────────────────────────────

    def errors(self, examples: Sequence[Example]) -> list[TaskError]:
        """Where the model is wrong about labelled examples, in their order."""
        ask = partial(LabelledTask.answer_batch, self)  # with answers that a task would not give
        answers = self._in_batches(ask, examples, f"{self.noun} compared")
        pairs = enumerate(zip(examples, answers, strict=True), 1)
        return [
            replace(error, example=number)
            for number, (example, found) in pairs
            for error in self.errors_of(example, found)
        ]

    def errors_of(self, example: Example, found: Sequence[Any]) -> Iterable[TaskError]:
        """The errors of one example, given its results, or its prediction if those have no scores.

        By default each result that is not right (`is_right`) is one. Without scores, a prediction
        is right if it is the example's attribute `label`; if there is none, by its `scores`.
        """
        gold, words = getattr(example, "label", None), getattr(example, "words", None)
        texts = self.sentences(example) if words is None else [words]
        for result in found:
            if self.has_scores:
                is_right = self.is_right(example, result)
            elif gold is not None:
                is_right = result == gold
            else:
                is_right = self.scores([example], [result])[self.score.removeprefix("dev_")] == 100
            if not is_right:
                label = "" if gold is None else str(gold)
                yield TaskError(
                    label=label,
                    gold=label,
                    predicted=str(getattr(result, "label", result)),
                    score=getattr(result, "score", None),
                    text=" | ".join(map(" ".join, texts)),
                )

    def gold_labels(self, example: Example) -> Sequence[str]:
        """The labels of an example that its errors are counted by; by default its `label`."""
        label = getattr(example, "label", None)
        return [label] if isinstance(label, str) else []

    def label_counts(self, examples: Iterable[Example]) -> Counter[str]:
        """How often each label is that of an example."""
        return Counter(label for example in examples for label in self.gold_labels(example))

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
        by_kind: dict[Hashable, list[int]] = {}
        for i in rng.permutation(len(self._groups)).tolist():
            by_kind.setdefault(self.kind(self.train[self._groups[i][0]]), []).append(i)
        size, part = self.batches.size, self.batches.sorted_together * self.batches.size
        batches: list[list[int]] = []
        for order in by_kind.values():
            for first in range(0, len(order), part):
                near = [self._groups[i] for i in order[first : first + part]]
                near.sort(key=lambda group: self.length(self.train[group[0]]))
                cut = (near[k : k + size] for k in range(0, len(near), size))
                batches += [list(chain.from_iterable(each)) for each in cut]
        return [batches[i] for i in rng.permutation(len(batches))]

    def _grouped(self, examples: Sequence[Example]) -> list[list[int]]:
        """Numbers of examples, those in one list that are read together."""
        groups: dict[Hashable, list[int]] = {}
        for number, example in enumerate(examples):
            shared = self.read_together(example)
            groups.setdefault(("alone", number) if shared is None else shared, []).append(number)
        return list(groups.values())


def batches_by_length(lengths: Sequence[int], size: int) -> list[list[int]]:
    """Numbers of examples in batches of similar lengths: at most `size`, and MAX_PADDED tokens."""
    batches: list[list[int]] = [[]]
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        tokens = (len(batches[-1]) + 1) * lengths[number]
        if len(batches[-1]) == size or (batches[-1] and tokens > MAX_PADDED):
            batches.append([])
        batches[-1].append(number)
    return batches if lengths else []


AnyTask = LabelledTask[Any, Any, Any]
