"""The tasks by name."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any

from relmo.errors import ConfigError

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
"""Name -> module and class; a task's module is loaded when it is asked for."""


def find_task(name: str) -> Any:  # noqa: ANN401 - a class derived from LabelledTask
    """The class of a task."""
    if name not in TASKS:
        near = get_close_matches(name, TASKS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(TASKS)}"
        raise ConfigError(f"no task {name!r}; {hint}")
    module, _, kind = TASKS[name].partition(":")
    return getattr(import_module(module), kind)
