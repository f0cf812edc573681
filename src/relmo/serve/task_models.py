"""The task models of a server: loaded around shared ELMo models, and asked through its queue.

    tasks = load_tasks(["relmo-en-ner", "runs/reviews"], elmo)
    app = create_app(elmo, tasks=tasks)

A request is checked against the limits, read into examples, such as sentences, and these are queued
like the sentences of embeddings. A task may use its model for reading too, so the model's thread
does both.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from relmo.elmo import Elmo
from relmo.errors import ConfigError, ModelNotFound
from relmo.runtime.runtime import PrecisionChoice
from relmo.serve.limits import BYTES_PER_RESULT
from relmo.serve.service import Service
from relmo.tasks.chunk_tags import OUTSIDE, is_chunked, split_tag
from relmo.tasks.labelled import AnyTask
from relmo.tasks.predictor import Predictor, load
from relmo.tasks.run import TaskCard
from relmo.weights.find import find_model

SEGMENT = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]*")
"""Names that need no escapes in a URL, and are not `.` or `..`."""
PREDICATE = "V"
"""The label of a predicate itself, which is no argument."""

Texts = tuple[str, ...]


class LoadedTask(NamedTuple):
    """A task model to serve."""

    predictor: Predictor
    task: str
    """The name of its task: "ner"."""
    elmo: str | None = None
    """The name of the ELMo model that it reads with."""


def load_tasks(
    names: Sequence[str | Path], elmo: Elmo, precision: PrecisionChoice = "float32"
) -> list[LoadedTask]:
    """Task models by name or by the folder of their run; equal ELMo models are loaded once.

    Args:
        names: of installed models, or folders; the last part of a path is the model's name.
        elmo: the server's own model, in this precision, which tasks that were trained with it use.
        precision: of the other ELMo models.
    """
    called = [_name_of(Path(name)) for name in names]
    check_names(called, names)
    shared: dict[str, Elmo] = {}
    tasks = []
    for name, given in zip(called, names, strict=True):
        folder = find_model(given)
        card = TaskCard.read(folder)
        model = None
        if (needed := card.elmo) is not None:
            key = needed["fingerprint"]
            shared = shared or {elmo.fingerprint("float32"): elmo}
            model = shared[key] = shared.get(key) or _open_elmo(folder, needed, precision)
        found = load(folder, elmo=model, precision=precision)
        read_with = None if needed is None else needed["name"]
        tasks.append(LoadedTask(Predictor(found.task, name), card.task, read_with))
    return tasks


def _name_of(path: Path) -> str:
    """The last part of a path, which "." and ".." have only as whole paths."""
    return path.resolve().name if path.name in ("", "..") else path.name


def _open_elmo(folder: Path, needed: dict[str, str], precision: PrecisionChoice) -> Elmo:
    try:
        return Elmo.from_pretrained(needed["place"], precision=precision)
    except ModelNotFound as error:
        raise ModelNotFound(
            f"{folder} needs the ELMo model {needed['name']}; install it, or serve it with "
            f"--model: {error}"
        ) from error


def check_names(names: Sequence[str], given: Sequence[str | Path] | None = None) -> None:
    """Raise ConfigError unless all names differ and can be part of a URL.

    `given` are the names or folders that the user gave, for messages.
    """
    places = [str(each) for each in given or names]
    for name, place in zip(names, places, strict=True):
        if not SEGMENT.fullmatch(name):
            raise ConfigError(
                f"--task {place}: {name!r} cannot be a part of a URL; rename the folder, with "
                f"letters of English, digits, '-', '_' and '.' only"
            )
        same = [other for other, called in zip(places, names, strict=True) if called == name]
        if len(same) > 1:
            raise ConfigError(
                f"--task: {' and '.join(same)} are both called {name!r}; a model has the name of "
                f"its folder, so rename one of them"
            )


@dataclass(frozen=True)
class Examples:
    """The examples of each input of a request."""

    of_inputs: list[list[Any]]
    costs: list[int]
    """Tokens that the model reads for each example, boundaries included."""
    num_words: int
    """Words that the model reads in all; a sentence counts for each of its examples."""


class TaskModel:
    """A task model as a server's routes use it."""

    def __init__(self, loaded: LoadedTask, service: Service) -> None:
        self._predictor, self.task, self.elmo = loaded
        self._service, task = service, loaded.predictor.task
        self.name, self.text_names = loaded.predictor.name, task.text_names
        self.result_name, self.labels = task.result_name, labels_of(task)

    @property
    def result_type(self) -> str:
        """The result's name if its type is known, else "": a task may answer with anything."""
        return self.result_name if self._predictor.task.has_scores else ""

    def description(self) -> dict[str, Any]:
        """What GET /tasks says of it."""
        return {
            "name": self.name,
            "task": self.task,
            "texts": list(self.text_names),
            "result": self.result_name,
            "labels": self.labels,
            "elmo": self.elmo,
        }

    async def read(self, inputs: Sequence[Texts]) -> Examples:
        """The examples of the inputs of a request, checked against the limits."""
        service, texts = self._service, list(chain.from_iterable(inputs))
        service.check_limit("texts", len(inputs), "inputs")
        parts = await service.split(texts, "inputs")
        counts = np.array([sum(map(len, part)) for part in parts], int)  # words of each text
        sizes = counts.reshape(len(inputs), -1).sum(1)  # of each input
        slices = np.cumsum(sizes) // service.limits.batch_tokens
        found: list[list[Any]] = []
        for _, some in groupby(range(len(inputs)), lambda number: slices[number]):
            numbers = list(some)  # other requests are served in between
            read = functools.partial(self._predictor.read, [inputs[number] for number in numbers])
            cost = int(sizes[numbers].sum())
            found += await asyncio.wrap_future(service.batcher.call(read, cost))
        return self._measured(found)

    def _measured(self, of_inputs: list[list[Any]]) -> Examples:
        sentences_of = self._predictor.task.sentences
        num_words, costs = 0, []
        for example in chain.from_iterable(of_inputs):
            lengths = list(map(len, sentences_of(example)))
            num_words += sum(lengths)
            costs.append(sum(lengths) + 2 * len(lengths))  # boundaries too
            self._service.check_limit("document_tokens", sum(lengths), "inputs")
            self._service.check_limit("tokens", num_words, "inputs")
        return Examples(of_inputs, costs, num_words)

    def memory(self, examples: Examples) -> int:
        """Bytes that the results of these examples may take."""
        num_scores = len(examples.of_inputs) * len(self.labels)
        return (examples.num_words + num_scores) * BYTES_PER_RESULT

    async def answer(self, examples: Examples) -> list[Any]:
        """The results of each input."""
        items = list(chain.from_iterable(examples.of_inputs))
        task, batcher = self._predictor.task, self._service.batcher
        answers = await asyncio.wrap_future(batcher.submit(task.answer, items, examples.costs))
        return self._predictor.join(examples.of_inputs, answers)


def labels_of(task: AnyTask) -> list[str]:
    """The labels or tags that the results of a task may have; [] if they have none."""
    tags = list(getattr(task, "tags", ()))
    if not tags or task.result_name == "tokens" or not is_chunked(tags):
        return tags or list(getattr(task, "labels", ()))
    hidden = {PREDICATE} if task.result_name == "frames" else set()
    return sorted({split_tag(tag)[1] for tag in tags if tag != OUTSIDE} - hidden)
