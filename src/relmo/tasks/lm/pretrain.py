"""The whole job: text in, a trained model out; needs torch, numpy and safetensors alone."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from relmo.errors import ConfigError
from relmo.tasks.lm.settings import Recipe
from relmo.tasks.lm.task import LmTask
from relmo.text.documents import find_files
from relmo.text.token_cache import TokenCache, open_cache
from relmo.train.distributed import World, join_world, wait
from relmo.train.record import write_record
from relmo.train.trainer import Trainer
from relmo.weights.native import Storage
from relmo.weights.tensors import ModelFiles


def pretrain(
    recipe: Recipe,
    data: Sequence[str | Path],
    output: Path,
    *,
    resume: bool = False,
    init: ModelFiles | None = None,
    cache_folder: Path | None = None,
    storage: Storage = "float32",
    device: str | None = None,
    report: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, float]:
    """Train a model and write it to output/model, with run.json and metrics.jsonl beside it.

    Args:
        recipe: what to train and how.
        data: files, folders or globs of text.
        output: the run's folder.
        resume: go on from the last checkpoint there.
        init: a model to start from (fine-tuning); its shapes replace the recipe's.
        cache_folder: where tokenised text is kept; output/cache unless given.
        storage: of the model's files.
        device: "cpu", "cuda" …; the best there is unless given.
        report: called with each line of metrics.
    """
    if (output / "run.json").exists() and not resume:
        raise ConfigError(f"{output} holds a finished run; choose another folder")
    world = join_world(device)
    if init is not None:
        recipe = dataclasses.replace(recipe, model=_like(init))
    cache = _open_cache(recipe, data, cache_folder or output / "cache", world)
    report({"corpus": cache.meta["tokens"], "coverage": cache.coverage(recipe.lm.vocabulary)})
    seed = recipe.training.seed
    graphs = recipe.training.accumulate == 1
    task = LmTask(recipe.model, recipe.lm, cache, seed, world, init, graphs)
    trainer = Trainer(task, recipe.training, recipe.optimizer, output, world, report)
    scores = trainer.fit(resume)
    task.batches.close()
    if world.is_main:
        facts = _facts(recipe, cache, trainer, scores)
        task.save_model(output / "model", facts, storage)
        write_record(output / "run.json", {"task": "lm", "recipe": recipe.to_dict(), **facts})
    wait(world)
    return scores


def _open_cache(
    recipe: Recipe, data: Sequence[str | Path], folder: Path, world: World
) -> TokenCache:
    """The main process makes the cache; the others find it made."""
    files = find_files(data)
    workers = os.cpu_count() or 1
    if world.is_main:
        open_cache(files, folder, recipe.data, workers)
    wait(world)
    return open_cache(files, folder, recipe.data, workers)


def _like(init: ModelFiles) -> Any:  # noqa: ANN401 - ElmoConfig
    """The other model's settings; its start state is made anew."""
    return dataclasses.replace(init.config, start="zero", training={})


def _facts(
    recipe: Recipe, cache: TokenCache, trainer: Trainer, scores: dict[str, float]
) -> dict[str, Any]:
    lm = recipe.lm
    tokens = trainer.step * trainer.settings.accumulate * lm.rows * lm.window
    return {
        "seed": recipe.training.seed,
        "data": {"hash": cache.folder.name, **cache.meta},
        "vocabulary": {"words": lm.vocabulary, "coverage": cache.coverage(lm.vocabulary)},
        "steps": trainer.step,
        "tokens_seen": tokens,
        "seconds": round(trainer.seconds, 1),
        "tokens_per_second": round(tokens / max(trainer.seconds, 1e-9)),
        "results": scores,
    }
