"""Tasks by name: those of the package, and those that somebody else wrote.

A class derived from `LabelledTask` becomes a task by `register_task("mine", MyTask)` or, for the
commands, by an entry point of the package that contains it:

    [project.entry-points."relmo.tasks"]
    mine = "mypackage.mytask:MyTask"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from relmo.config import nearest, shown
from relmo.errors import ConfigError
from relmo.tasks import sources
from relmo.tasks.data_files import Part
from relmo.tasks.labelled import AnyTask, LabelledTask
from relmo.tasks.sources import Source

TASKS = {
    "classify": "relmo.tasks.sst.task:ClassifyTask",
    "coref": "relmo.tasks.coref.task:CorefTask",
    "encoder": "relmo.tasks.encoder.task:EncoderTask",
    "multilabel": "relmo.tasks.multilabel.task:MultilabelTask",
    "ner": "relmo.tasks.ner.task:NerTask",
    "pos": "relmo.tasks.ner.task:PosTask",
    "snli": "relmo.tasks.snli.task:SnliTask",
    "squad": "relmo.tasks.squad.task:SquadTask",
    "srl": "relmo.tasks.srl.task:SrlTask",
    "sst": "relmo.tasks.sst.task:SstTask",
    "sst-phrases": "relmo.tasks.sst.task:SstPhrasesTask",
}
"""Name -> module and class of the package's tasks; a module is imported when its task is used."""
GROUP = "relmo.tasks"
"""The entry points of tasks in other packages."""
_registered: dict[str, type[AnyTask]] = {}


def register_task(name: str, task: type[AnyTask]) -> None:
    """Make a task available by name to `train_task` and `load_task`."""
    if name in TASKS or _registered.get(name, task) is not task:
        raise ConfigError(f"there is already a task {name!r}; choose another name")
    _registered[name] = _checked(task)


def find_task(name: str) -> type[AnyTask]:
    """The class of a task."""
    if name in _registered:
        return _registered[name]
    if name in TASKS:
        module, _, attribute = TASKS[name].partition(":")
        return _checked(getattr(import_module(module), attribute))
    elsewhere = entry_points(group=GROUP)
    if name in elsewhere.names:
        return _checked(elsewhere[name].load())
    known = [*TASKS, *_registered, *sorted(elsewhere.names)]
    near = nearest(name, known)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(known)}"
    raise ConfigError(f"unknown task {shown(name)}; {hint}")


def _checked(task: Any) -> type[AnyTask]:  # noqa: ANN401 - what a package calls a task
    """The class, if it is a complete task."""
    if not (isinstance(task, type) and issubclass(task, LabelledTask)):
        raise ConfigError(f"a task must be a subclass of LabelledTask, got {task!r}")
    declared = [each for each in ("score", "settings_type") if not hasattr(task, each)]
    if missing := [*declared, *sorted(task.__abstractmethods__)]:
        raise ConfigError(f"the task {task.__name__} must define {', '.join(missing)}")
    return task


# ── data of a task ──────────────────────────────────────────────────────────────────────────────


def read_parts(name: str, data: str | Path | Source) -> dict[Part, list[Any]]:
    """Examples of each part of a task's data; the test part may be empty."""
    return sources.read_parts(find_task(name), data)


def data_facts(
    name: str, data: str | Path | Source, examples: Mapping[Part, Sequence[Any]]
) -> dict[str, Any]:
    """What a record says of the data: names, checksums, numbers of examples, columns, split."""
    return sources.data_facts(find_task(name), data, examples)
