"""Tasks by name: those of the package, and those that somebody else wrote.

A class derived from `LabelledTask` becomes a task by `register_task("mine", MyTask)` or, for the
commands, by an entry point of the package that contains it:

    [project.entry-points."relmo.tasks"]
    mine = "mypackage.mytask:MyTask"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from relmo.errors import ConfigError
from relmo.files import sha256
from relmo.tasks.data_files import PARTS, Part, find_parts
from relmo.tasks.inputs import Inputs, TokenInput, Words
from relmo.tasks.labelled import BatchSettings, Example, LabelledTask, ModelSettings, Prediction

GROUP = "relmo.tasks"
"""Entry points of tasks in other packages."""
TASKS = {
    "coref": "relmo.tasks.coref.task:CorefTask",
    "ner": "relmo.tasks.ner.task:NerTask",
    "pos": "relmo.tasks.ner.task:PosTask",
    "snli": "relmo.tasks.snli.task:SnliTask",
    "squad": "relmo.tasks.squad.task:SquadTask",
    "srl": "relmo.tasks.srl.task:SrlTask",
    "sst": "relmo.tasks.sst.task:SstTask",
    "sst-phrases": "relmo.tasks.sst.task:SstPhrasesTask",
}
"""Name -> module and class of the package's tasks; a module is imported when its task is used."""


class TaskType(Protocol[Example, Prediction, ModelSettings]):
    """The class of a task as training and loading use it; see `LabelledTask` for the members."""

    @property
    def score(self) -> str:
        """The score that selects the best weights."""

    @property
    def settings_type(self) -> type[ModelSettings]:
        """The settings of the model."""

    @property
    def suffixes(self) -> Sequence[str]:
        """Endings of the data files' names."""

    def __call__(
        self,
        settings: ModelSettings,
        facts: dict[str, Any],
        inputs: Inputs,
        tokens: TokenInput,
        train: Sequence[Example] = (),
        dev: Sequence[Example] = (),
        batches: BatchSettings | None = None,
        seed: int = 0,
    ) -> LabelledTask[Example, Prediction, ModelSettings]:
        """Build the task: `inputs` makes the batches that `tokens`, a part of its model, reads."""

    def read(self, path: Path, part: Part) -> list[Example]:
        """Labelled examples of a file."""

    def parts(self, folder: Path) -> dict[Part, list[Example]]:
        """Examples of each part of a data folder."""

    def facts_of(self, train: Sequence[Example]) -> dict[str, Any]:
        """What a model must know of its training data besides its weights."""

    def sentences(self, example: Example) -> list[Words]:
        """The sentences of an example that the model reads."""


if TYPE_CHECKING:
    from relmo.tasks.coref.task import CorefTask
    from relmo.tasks.ner.task import NerTask, PosTask
    from relmo.tasks.snli.task import SnliTask
    from relmo.tasks.squad.task import SquadTask
    from relmo.tasks.srl.task import SrlTask
    from relmo.tasks.sst.task import SstPhrasesTask, SstTask

    # The classes that TASKS names as strings: mypy checks that each is a TaskType.
    _taggers: tuple[TaskType[Any, Any, Any], ...] = (NerTask, PosTask, SrlTask, CorefTask)
    _others: tuple[TaskType[Any, Any, Any], ...] = (SnliTask, SquadTask, SstTask, SstPhrasesTask)

_registered: dict[str, TaskType[Any, Any, Any]] = {}


def register_task(name: str, task: TaskType[Example, Prediction, ModelSettings]) -> None:
    """Make a task available by name to `train_task` and `load_task`."""
    if name in TASKS or _registered.get(name, task) is not task:
        raise ConfigError(f"there is already a task {name!r}; choose another name")
    _registered[name] = task


def find_task(name: str) -> TaskType[Any, Any, Any]:
    """The class of a task."""
    if name in _registered:
        return _registered[name]
    if name in TASKS:
        module, _, attribute = TASKS[name].partition(":")
        found: TaskType[Any, Any, Any] = getattr(import_module(module), attribute)
        return found
    elsewhere = entry_points(group=GROUP)
    if name in elsewhere.names:
        plugin: TaskType[Any, Any, Any] = elsewhere[name].load()
        return plugin
    known = [*TASKS, *_registered, *sorted(elsewhere.names)]
    near = get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(known)}"
    raise ConfigError(f"unknown task {name!r}; {hint}")


# ── data of a task ──────────────────────────────────────────────────────────────────────────────


def read_parts(name: str, data: Path) -> dict[Part, list[Any]]:
    """Examples of each part of a task's data; the test part may be empty."""
    found = find_task(name).parts(data)
    for part in ("train", "dev"):
        if not found[part]:
            raise ConfigError(f"{data}: the {part} part contains no examples")
    return {part: found.get(part, []) for part in PARTS}


def data_facts(name: str, data: Path, examples: Mapping[Part, Sequence[Any]]) -> dict[str, Any]:
    """What a record says of the data: names, checksums and numbers of examples."""
    files = {
        part: {"name": path.name, "sha256": sha256(path)}
        for part, path in find_parts(data, find_task(name).suffixes).items()
    }
    counts: dict[str, int] = {part: len(found) for part, found in examples.items()}
    return {"name": data.resolve().name, **counts, "files": files}
