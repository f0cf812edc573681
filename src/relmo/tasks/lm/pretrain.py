"""Pretrain a model: text in, a trained model out. Needs only torch, numpy and safetensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from relmo.lm.language_model import warn_of_unknown
from relmo.progress import working
from relmo.tasks.lm.fit import fit_recipe
from relmo.tasks.lm.settings import PretrainRecipe
from relmo.tasks.lm.task import LmTask, can_keep_vocabulary
from relmo.tasks.lm.token_cache import TokenCache, open_cache
from relmo.text.documents import find_files
from relmo.training.distributed import World, is_main_process, join_world
from relmo.training.run import Run, write_record
from relmo.training.trainer import Trainer
from relmo.weights.safetensors_files import check_storage
from relmo.weights.tensors import ModelFiles, Storage

COMPARED = ("held_out_mean", "held_out_bits_per_character")
"""Scores that fine-tuning reports as they were before, too."""


def pretrain(
    recipe: PretrainRecipe,
    data: Sequence[str | Path],
    output: str | Path,
    *,
    resume: bool = False,
    init: ModelFiles | None = None,
    teacher: ModelFiles | None = None,
    cache_folder: str | Path | None = None,
    storage: Storage = "float32",
    device: str | None = None,
    report: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, float]:
    """Train a model and write it to output/model, with run.json and metrics.jsonl beside it.

    Args:
        recipe: what to train and how.
        data: files, folders or globs of text.
        output: folder of the run.
        resume: continue from the last checkpoint in `output`.
        init: initial model, to fine-tune; its shapes replace the recipe's.
        teacher: model whose predictions are learned, too; its vocabulary is taken.
        cache_folder: of tokenized text; output/cache by default.
        storage: of the weights in the model's files.
        device: "cpu", "cuda" …; by default a GPU if there is one.
        report: called with each line of metrics.
    """
    check_storage(storage)  # not after hours of training
    run = Run(Path(output))
    with run.opened(resume=resume, is_main=is_main_process()):
        return _pretrain(
            run, recipe, data, resume, init, teacher, Path(cache_folder or run.folder / "cache"),
            storage, join_world(device), report,
        )  # fmt: skip


def _pretrain(
    run: Run,
    recipe: PretrainRecipe,
    data: Sequence[str | Path],
    resume: bool,
    init: ModelFiles | None,
    teacher: ModelFiles | None,
    cache_folder: Path,
    storage: Storage,
    world: World,
    report: Callable[[dict[str, Any]], None],
) -> dict[str, float]:
    """Train in an opened run; see `pretrain`."""
    if init is not None:
        recipe = _with_shapes_of(init, recipe)
    cache = _open_cache(recipe, data, cache_folder, world)
    recipe, need = fit_recipe(
        recipe, cache, world, init, run.settings().get("lm") if resume else {}, teacher
    )
    values, training = recipe.to_dict(), recipe.training
    fixed = {  # what each step depends on: it must not change when a run is resumed
        "model": values["model"],
        "lm": values["lm"],
        "accumulate": training.accumulate,
        "seed": training.seed,
        "text": cache.folder.name,
        "teacher": None if teacher is None else _name(teacher),
    }
    run.check_settings(
        fixed, save=world.is_main, defaults={"lm": {"train_tokens": True, "teacher_weight": 0.5}}
    )
    graphs = training.accumulate == 1
    with working("building the model", show=world.is_main):
        task = LmTask(recipe.model, recipe.lm, cache, training.seed, world, init, graphs, teacher)
    if world.is_main:
        coverage = cache.coverage(task.lexicon.words)
        sizes = {**recipe.lm.sizes._asdict(), "memory": round(need.total)}
        report({"corpus": cache.meta["tokens"], "coverage": coverage, "sizes": sizes})
    before = {} if init is None else _before(task, init, report)
    trainer = Trainer(task, training, recipe.optimizer, run, world, report)
    try:
        scores = {**trainer.fit(resume), **before}
    finally:
        task.batches.close()
    if world.is_main:
        warn_of_unknown(scores.get("held_out_unknown_rate", 0.0))
        origins = {"began_from": init, "taught_by": teacher}.items()
        names = {key: _name(files) for key, files in origins if files is not None}
        facts = {**names, **_facts(recipe, task, trainer, scores)}
        with working("saving the model"):
            task.save_model(run.folder / "model", facts, storage)
        write_record(run.record_path, {"task": "lm", "recipe": values, **facts}, world)
    world.wait()
    return scores


def _open_cache(
    recipe: PretrainRecipe, data: Sequence[str | Path], folder: Path, world: World
) -> TokenCache:
    """The token cache, built by the main process for all."""
    files = find_files(data)
    workers = os.cpu_count() or 1
    cache = open_cache(files, folder, recipe.data, workers) if world.is_main else None
    world.wait()
    return cache or open_cache(files, folder, recipe.data, workers)


def _with_shapes_of(init: ModelFiles, recipe: PretrainRecipe) -> PretrainRecipe:
    """The recipe with the initial model's shapes and tokenizer; a new start state is computed."""
    name = recipe.model.name
    model = replace(init.config, name=name, start="zero", has_start_state=False, training={})
    data = replace(recipe.data, tokenizer=model.tokenizer)
    return replace(recipe, model=model, data=data)


def _before(
    task: LmTask, init: ModelFiles, report: Callable[[dict[str, Any]], None]
) -> dict[str, float]:
    """Held-out perplexity and bits per character of the initial model, with its own softmax."""
    if not (task.world.is_main and can_keep_vocabulary(init)):
        return {}
    scores = task.evaluate(init)
    found = {f"{name}_before": scores[name] for name in COMPARED if name in scores}
    report({"before": found})
    return found


def _name(files: ModelFiles) -> str:
    return files.config.name or "a model without a name"


def _facts(
    recipe: PretrainRecipe, task: LmTask, trainer: Trainer, scores: dict[str, float]
) -> dict[str, Any]:
    lm, cache = recipe.lm, task.cache
    tokens = trainer.step * trainer.settings.accumulate * lm.sizes.rows * lm.sizes.window
    return {
        "seed": recipe.training.seed,
        "data": {"hash": cache.folder.name, **cache.meta},
        "vocabulary": {"words": len(task.lexicon), "coverage": cache.coverage(task.lexicon.words)},
        "steps": trainer.step,
        "tokens_seen": tokens,
        "seconds": round(trainer.seconds, 1),
        "tokens_per_second": round(tokens / max(trainer.seconds, 1e-9)),
        "results": scores,
    }
