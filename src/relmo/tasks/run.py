"""Train, keep and take up a task's model: one way for all tasks.

OUTPUT/task.json           what it is: task, recipe, labels, letters, the ELMo model it reads with
OUTPUT/words.json          words that have a static vector
OUTPUT/best.safetensors    its best weights so far, static vectors among them
OUTPUT/run.json            the record, when the run is over; metrics.jsonl, checkpoint/ beside it
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from relmo.elmo import Elmo
from relmo.errors import ConfigError, ModelNotFound
from relmo.files import sha256
from relmo.nn.blocks.tokens import InputSettings
from relmo.runtime.runtime import PrecisionChoice, check_precision
from relmo.tasks.about import About, read_about
from relmo.tasks.data_folder import data_facts, read_parts
from relmo.tasks.inputs import Inputs, Letters, layers_of
from relmo.tasks.labelled import BatchSettings, LabelledTask
from relmo.tasks.layer_cache import LayerCache, open_layers
from relmo.tasks.parts import PARTS, Part
from relmo.tasks.registry import find_task
from relmo.tasks.static_vectors import StaticVectors, random_vectors, read_vectors
from relmo.train.distributed import World, join_world
from relmo.train.optim import OptimSettings
from relmo.train.recipe import make_sections, read_recipe
from relmo.train.run import Run, write_record
from relmo.train.trainer import Trainer, TrainSettings

FIXED = "input", "model", "batch"
"""Sections of a recipe that may not change before a run is resumed."""
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
    find_task(task)  # a slip in the task's name is no slip in the recipe's
    values = read_recipe("tasks", name or task, changes)
    return make_task_recipe(task, values, str(name or task))


def make_task_recipe(task: str, values: Mapping[str, Any], where: str) -> TaskRecipe:
    """Check and freeze what a TOML file holds."""
    kinds = {**SECTIONS, "model": find_task(task).settings_type}
    return TaskRecipe(**make_sections(values, kinds, where))


def train_task(
    name: str,
    recipe: TaskRecipe,
    data: Path,
    output: Path,
    *,
    elmo: Elmo | str | Path | None = None,
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
        elmo: the model whose layers are read, or its name or folder; None trains the baseline. Its
            weights stay as they are: fine-tuning trains a copy.
        vectors: file of static vectors; random ones are trained unless given, whatever the recipe.
        cache: where ELMo's layers of the data are kept; OUTPUT/cache unless given.
        resume: go on from the last checkpoint there.
        device: "cpu", "cuda" …; the best there is unless given.
        report: called with each line of metrics.
    """
    run, makes_checkpoints = Run(output), bool(recipe.training.checkpoint_every)
    run.check_start(resume=resume, makes_checkpoints=makes_checkpoints)
    world = _alone(device)
    kind, all_examples = find_task(name), read_parts(name, data)
    drawn = draw(all_examples["train"], recipe.batch.share, recipe.training.seed)
    examples = {**all_examples, "train": drawn}
    model, elmo_facts = _open_elmo(elmo, world.device)
    if vectors is None:  # random vectors that are not trained would say nothing
        recipe = replace(recipe, input=replace(recipe.input, tune_static=True))
    static = _static(kind, examples, vectors)
    letters = _letters(kind, examples["train"]) if recipe.input.letters else None
    made_of = {
        "data": {**data_facts(name, data, examples), "share": recipe.batch.share},
        "vectors": _vector_facts(vectors, static),
        "elmo": elmo_facts and {key: elmo_facts[key] for key in ("name", "fingerprint")},
    }
    run.check_settings(
        _resume_settings(name, recipe, made_of),
        save=makes_checkpoints,
        defaults={part: dataclasses.asdict(type(getattr(recipe, part))()) for part in FIXED},
    )
    layers: LayerCache | None = None
    if model is not None and recipe.input.finetune:
        model = copy.deepcopy(model)
    elif model is not None:
        parts = all_examples.values()  # of all: runs on other shares find the same layers
        sentences = (s for part in parts for e in part for s in kind.sentences(e))
        layers = open_layers(model, sentences, cache or output / "cache")
    compute = layers or (layers_of(model, is_trained=True) if model else None)
    inputs = Inputs(static, letters, compute, world.device)
    facts = kind.facts_of(examples["train"])
    torch.manual_seed(recipe.training.seed)
    task = _make(name, recipe, facts, inputs, model, examples)
    _check_lengths(task, recipe)
    _about(name, recipe, facts, inputs, elmo_facts).write(output)
    trainer = Trainer(task, recipe.training, recipe.optimizer, run, world, report)
    scores, counts = _fit(trainer, task, examples["test"], resume)
    record = {
        "task": name,
        **made_of,
        "recipe": dataclasses.asdict(recipe),
        "cache": None if layers is None else layers.meta,
        **_outcome(trainer, task),
        "results": scores,
        "curve": run.curve(task.score),
        "test_counts": counts,
    }
    write_record(run.record_path, record, world)
    return scores


def load_task(
    folder: Path,
    *,
    elmo: Elmo | str | Path | None = None,
    device: str | None = None,
    precision: PrecisionChoice = "float32",
) -> LabelledTask[Any, Any]:
    """A trained task's model, ready to predict.

    Args:
        folder: of the run.
        elmo: the model that it reads with, or its name or folder; where it was found when the run
            began unless given.
        device: "cpu", "cuda" …; the best there is unless given.
        precision: of ELMo's products; "float32" is what the run was trained with.
    """
    check_precision(precision)
    about, world = read_about(folder), join_world(device)
    recipe = make_task_recipe(about.task, about.recipe, str(folder / "task.json"))
    model = _elmo_again(folder, about, elmo, world.device)
    if model is not None:
        model.runtime.fast.use_precision(precision)
    if model is not None and recipe.input.finetune:
        model = copy.deepcopy(model)
    table = np.zeros((len(about.words) + 2, about.static_width), np.float32)
    letters = None if about.letters is None else Letters(about.letters)
    compute = None if model is None else layers_of(model)
    inputs = Inputs(StaticVectors(about.words, table), letters, compute, world.device)
    task = _make(about.task, recipe, about.facts, inputs, model, {})
    Run(folder).load_best(task.model)
    task.model.eval().requires_grad_(False)
    return task


# ── before ──────────────────────────────────────────────────────────────────────────────────────


def draw(examples: Sequence[Any], share: float, seed: int) -> list[Any]:
    """That share of the examples, one at least, in their order; another seed draws others."""
    if share == 1 or not examples:
        return list(examples)
    count = max(1, round(share * len(examples)))
    places = np.random.default_rng((seed, 3)).permutation(len(examples))[:count]
    return [examples[i] for i in np.sort(places)]


def _alone(device: str | None) -> World:
    world = join_world(device)
    if world.size > 1:
        raise ConfigError("a task is trained by one process; start one for each run")
    return world


def _check_lengths(task: LabelledTask[Any, Any], recipe: TaskRecipe) -> None:
    if not task.train:
        longest = recipe.batch.max_length
        raise ConfigError(f"no training example is at most {longest} long; raise batch.max_length")


def _open_elmo(
    elmo: Elmo | str | Path | None, device: torch.device
) -> tuple[Elmo | None, dict[str, str] | None]:
    """The model on the device, and what finds it again."""
    if elmo is None:
        return None, None
    model = elmo if isinstance(elmo, Elmo) else Elmo.from_pretrained(elmo, device=device)
    place = model.config.name
    if not isinstance(elmo, Elmo):
        place = str(Path(elmo).resolve()) if Path(elmo).is_dir() else str(elmo)
    facts = {"name": model.config.name, "fingerprint": model.fingerprint(), "place": place}
    return model.to(device), facts


def _elmo_again(
    folder: Path, about: About, elmo: Elmo | str | Path | None, device: torch.device
) -> Elmo | None:
    """The model that a run read with."""
    if about.elmo is None:
        return None
    try:
        model, facts = _open_elmo(elmo or about.elmo["place"], device)
    except ModelNotFound as error:
        name = about.elmo["name"]
        raise ModelNotFound(f"{folder} reads with {name}; give it with --elmo: {error}") from error
    assert facts is not None
    if facts["fingerprint"] != about.elmo["fingerprint"]:
        raise ConfigError(
            f"{folder} was trained with another {about.elmo['name']}; give that model"
        )
    return model


def _static(
    kind: Any,  # noqa: ANN401 - a task
    examples: Mapping[Part, Sequence[Any]],
    vectors: Path | None,
) -> StaticVectors:
    if vectors is None:
        return random_vectors(_words(kind, examples["train"]), RANDOM_WIDTH)
    return read_vectors(vectors, {w for part in PARTS for w in _words(kind, examples[part])})


def _letters(kind: Any, train: Sequence[Any]) -> Letters:  # noqa: ANN401 - a task
    return Letters(sorted({c for word in _words(kind, train) for c in word}))


def _words(kind: Any, examples: Iterable[Any]) -> set[str]:  # noqa: ANN401 - a task
    return {word for e in examples for sentence in kind.sentences(e) for word in sentence}


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


# ── training ────────────────────────────────────────────────────────────────────────────────────


def _fit(
    trainer: Trainer, task: LabelledTask[Any, Any], test: Sequence[Any], resume: bool
) -> tuple[dict[str, float], list[Any] | None]:
    """Train; scores of the best weights on the development and the test part, and test counts."""
    try:
        scores = trainer.fit(resume)
        if not test:
            return scores, None
        predictions = task.predict(test)
        found = task.scores(test, predictions)
        counts = task.counts(test, predictions)
        return scores | {f"test_{name}": value for name, value in found.items()}, counts
    except torch.OutOfMemoryError as error:
        raise ConfigError(
            f"batches of {task.batches.size} examples need more memory than the GPU has; lower "
            f"batch.size, or leave long examples out with batch.max_length"
        ) from error


def _about(
    name: str,
    recipe: TaskRecipe,
    facts: dict[str, Any],
    inputs: Inputs,
    elmo: dict[str, str] | None,
) -> About:
    return About(
        task=name,
        recipe=dataclasses.asdict(recipe),
        facts=facts,
        words=inputs.static.words,
        static_width=inputs.static.table.shape[1],
        letters=None if inputs.letters is None else inputs.letters.characters,
        elmo=elmo,
    )


# ── the record ──────────────────────────────────────────────────────────────────────────────────


def _vector_facts(path: Path | None, static: StaticVectors) -> dict[str, Any] | None:
    if path is None:
        return None
    known = {"words": len(static.words), "width": static.table.shape[1]}
    return {"name": path.name, "sha256": sha256(path), **known}


def _resume_settings(name: str, recipe: TaskRecipe, made_of: Mapping[str, Any]) -> dict[str, Any]:
    """What may not change before a run is resumed; where a file lies and its name may."""
    values = dataclasses.asdict(recipe)
    files, vectors, elmo = made_of["data"]["files"], made_of["vectors"], made_of["elmo"]
    return {
        "task": name,
        **{part: values[part] for part in FIXED},
        "accumulate": recipe.training.accumulate,
        "seed": recipe.training.seed,
        "data": {part: file["sha256"] for part, file in files.items()},
        "vectors": vectors and vectors["sha256"],
        "elmo": elmo and elmo["fingerprint"],
    }


def _outcome(trainer: Trainer, task: LabelledTask[Any, Any]) -> dict[str, Any]:
    return {
        "seed": trainer.settings.seed,
        "parameters": sum(p.numel() for p in task.model.parameters() if p.requires_grad),
        "steps": trainer.step,
        "best_step": trainer.best.step,
        "seconds": round(trainer.seconds, 1),
        "mixes": task.mixes(),
    }
