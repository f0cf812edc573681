"""Train, keep and take up a task's model: one way for all tasks.

OUTPUT/task.json           what it is: task, recipe, labels, letters, the ELMo model it reads with
OUTPUT/words.txt           words that have a static vector
OUTPUT/best.safetensors    its best weights so far, static vectors among them
OUTPUT/run.json            the record, when the run is over; metrics.jsonl, checkpoint/ beside it
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from relmo.config import build, check_keys
from relmo.elmo import Elmo
from relmo.errors import ConfigError
from relmo.files import replacing
from relmo.nn.blocks.tokens import InputSettings
from relmo.tasks.inputs import Inputs, Letters, Words, layers_of
from relmo.tasks.labelled import BatchSettings, LabelledTask
from relmo.tasks.layer_cache import LayerCache, open_layers
from relmo.tasks.parts import Part, find_part, need_part
from relmo.tasks.registry import find_task
from relmo.tasks.static_vectors import StaticVectors, random_vectors, read_vectors
from relmo.train.best import load_best
from relmo.train.distributed import join_world
from relmo.train.optim import OptimSettings
from relmo.train.recipe import read_recipe, section
from relmo.train.record import write_record
from relmo.train.trainer import Trainer, TrainSettings
from relmo.weights.facts import make_folder, read_json, write_json

PARTS: tuple[Part, ...] = ("train", "dev", "test")
RANDOM_WIDTH = 100
"""Of static vectors that are trained from nothing."""


@dataclass(frozen=True, kw_only=True)
class TaskRecipe:
    """Everything that decides a task's run, besides data, vectors and the ELMo model."""

    input: InputSettings = field(default_factory=InputSettings)
    model: Any = None
    """The task's own settings."""
    batch: BatchSettings = field(default_factory=BatchSettings)
    training: TrainSettings = field(default_factory=lambda: TrainSettings(epochs=1))
    optimizer: OptimSettings = field(default_factory=OptimSettings)


SECTIONS = {
    "input": InputSettings,
    "batch": BatchSettings,
    "training": TrainSettings,
    "optimizer": OptimSettings,
}


def load_task_recipe(
    task: str, name: str | Path | None = None, changes: Sequence[str] = ()
) -> TaskRecipe:
    """The recipe of a task: the package's own unless another is named."""
    values = read_recipe("tasks", name or task, changes)
    return make_task_recipe(task, values, str(name or task))


def make_task_recipe(task: str, values: Mapping[str, Any], where: str) -> TaskRecipe:
    """Check and freeze what a TOML file holds."""
    kinds = {**SECTIONS, "model": find_task(task).settings_type}
    check_keys(values, set(kinds), where)
    return TaskRecipe(
        **{
            name: build(kind, section(values, name, where), f"{where}: {name}")
            for name, kind in kinds.items()
        }
    )


def train_task(
    name: str,
    recipe: TaskRecipe,
    data: Path,
    output: Path,
    *,
    elmo: Elmo | None = None,
    vectors: Path | None = None,
    cache: Path | None = None,
    resume: bool = False,
    device: str | None = None,
    report: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, float]:
    """Train a task's model, score it on the test part and write the record.

    Args:
        name: of the task.
        recipe: what to train and how.
        data: folder with the parts' files.
        output: the run's folder.
        elmo: the model whose layers are read; None trains the baseline.
        vectors: file of static vectors; random ones are trained unless given, whatever the recipe.
        cache: where ELMo's layers of the data are kept; OUTPUT/cache unless given.
        resume: go on from the last checkpoint there.
        device: "cpu", "cuda" …; the best there is unless given.
        report: called with each line of metrics.
    """
    if (output / "run.json").exists() and not resume:
        raise ConfigError(f"{output} holds a finished run; choose another folder")
    world = join_world(device)
    kind = find_task(name)
    examples = read_parts(name, data)
    words = _words(kind.sentences(e) for part in examples.values() for e in part)
    static = read_vectors(vectors, words) if vectors else _random(kind, examples["train"])
    if vectors is None:  # random vectors that are not trained would say nothing
        recipe = replace(recipe, input=replace(recipe.input, tune_static=True))
    letters = Letters(sorted({c for w in words for c in w})) if recipe.input.letters else None
    layers: LayerCache | None = None
    if elmo is not None:
        elmo.to(world.device)
        if not recipe.input.finetune:
            sentences = (s for part in examples.values() for e in part for s in kind.sentences(e))
            layers = open_layers(elmo, sentences, cache or output / "cache")
    compute = layers or (layers_of(elmo, recipe.input.finetune) if elmo else None)
    inputs = Inputs(static, letters, compute, world.device)
    facts = kind.facts_of(examples["train"])
    torch.manual_seed(recipe.training.seed)
    task = _make(name, recipe, facts, inputs, elmo, examples)
    _write_about(output, name, recipe, facts, inputs, elmo)
    trainer = Trainer(task, recipe.training, recipe.optimizer, output, world, report)
    scores = trainer.fit(resume)
    if examples["test"]:
        scores |= {f"test_{k}": v for k, v in task.score_on(examples["test"]).items()}
    record = _record(name, recipe, data, examples, task, trainer, elmo, scores, layers)
    write_record(output / "run.json", record, world)
    return scores


def load_task(
    folder: Path, *, elmo: Elmo | None = None, device: str | None = None
) -> LabelledTask[Any, Any]:
    """A trained task's model, ready to predict; its ELMo model is found by name unless given."""
    about = read_json(folder / "task.json")
    name, world = about["task"], join_world(device)
    recipe = make_task_recipe(name, about["recipe"], str(folder / "task.json"))
    if about["elmo"] is not None:
        elmo = elmo or Elmo.from_pretrained(about["elmo"]["name"], device=world.device)
        if elmo.fingerprint() != about["elmo"]["fingerprint"]:
            raise ConfigError(
                f"{folder} was trained with another {about['elmo']['name']}; give that model"
            )
    words = (folder / "words.txt").read_text(encoding="utf-8").split("\n")[:-1]
    static = StaticVectors(words, np.zeros((len(words) + 2, about["static_width"]), np.float32))
    letters = None if about["letters"] is None else Letters(about["letters"])
    compute = None if about["elmo"] is None or elmo is None else layers_of(elmo)
    inputs = Inputs(static, letters, compute, world.device)
    task = _make(name, recipe, about["facts"], inputs, elmo if compute else None, {})
    load_best(folder, task.model)
    return task


def read_parts(name: str, data: Path) -> dict[Part, list[Any]]:
    """Examples of each part of a task's data; a test part may be missing.

    A task whose parts are not simply files of their names has a classmethod `parts`.
    """
    kind = find_task(name)
    if hasattr(kind, "parts"):
        own: dict[Part, list[Any]] = kind.parts(data)
        return own
    suffixes = getattr(kind, "suffixes", ("",))
    found: dict[Part, list[Any]] = {}
    for part in PARTS:
        path = (find_part if part == "test" else need_part)(data, part, suffixes)
        found[part] = [] if path is None else kind.read(path, part)
    return found


def _make(
    name: str,
    recipe: TaskRecipe,
    facts: dict[str, Any],
    inputs: Inputs,
    elmo: Elmo | None,
    examples: Mapping[Part, Sequence[Any]],
) -> LabelledTask[Any, Any]:
    shape = None if elmo is None else (elmo.config.num_layers, elmo.config.width)
    tokens = inputs.make_module(recipe.input, shape)
    task: LabelledTask[Any, Any] = find_task(name)(
        recipe.model, facts, inputs, tokens, examples.get("train", ()), examples.get("dev", ()),
        recipe.batch, recipe.training.seed,
    )  # fmt: skip
    if elmo is not None and recipe.input.finetune:
        task.model.bilm = elmo.bilm.requires_grad_(True)
    return task


def _words(sentences: Iterable[Iterable[Words]]) -> set[str]:
    return {word for each in sentences for sentence in each for word in sentence}


def _random(kind: Any, train: Sequence[Any]) -> StaticVectors:  # noqa: ANN401 - a task
    return random_vectors(_words(kind.sentences(e) for e in train), RANDOM_WIDTH)


def _write_about(
    output: Path,
    name: str,
    recipe: TaskRecipe,
    facts: dict[str, Any],
    inputs: Inputs,
    elmo: Elmo | None,
) -> None:
    """What load_task needs besides the weights."""
    make_folder(output)
    with replacing(output / "words.txt") as temporary:
        text = "".join(f"{word}\n" for word in inputs.static.words)
        temporary.write_text(text, encoding="utf-8")
    about = {
        "task": name,
        "recipe": dataclasses.asdict(recipe),
        "facts": facts,
        "static_width": inputs.static.table.shape[1],
        "letters": None if inputs.letters is None else inputs.letters.characters,
        "elmo": _elmo_facts(elmo),
    }
    write_json(output / "task.json", about)


def _record(
    name: str,
    recipe: TaskRecipe,
    data: Path,
    examples: Mapping[Part, Sequence[Any]],
    task: LabelledTask[Any, Any],
    trainer: Trainer,
    elmo: Elmo | None,
    scores: dict[str, float],
    layers: LayerCache | None,
) -> dict[str, Any]:
    trained = sum(p.numel() for p in task.model.parameters() if p.requires_grad)
    return {
        "task": name,
        "data": {"name": data.name, **{part: len(found) for part, found in examples.items()}},
        "elmo": _elmo_facts(elmo),
        "recipe": dataclasses.asdict(recipe),
        "seed": recipe.training.seed,
        "parameters": trained,
        "steps": trainer.step,
        "best_step": trainer.best.step,
        "seconds": round(trainer.seconds, 1),
        "cache": None if layers is None else layers.meta,
        "mixes": task.mixes(),
        "results": scores,
    }


def _elmo_facts(elmo: Elmo | None) -> dict[str, Any] | None:
    return None if elmo is None else {"name": elmo.config.name, "fingerprint": elmo.fingerprint()}
