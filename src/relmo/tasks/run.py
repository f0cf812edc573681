"""Train a task's model, save it and load it again: one way for all tasks.

OUTPUT/task.json           what it is: task, recipe, labels, letters, the ELMo model it reads with
OUTPUT/words.json          words that have a static vector
OUTPUT/best.safetensors    its best weights so far, static vectors included
OUTPUT/run.json            the record of a finished run; see training/run.py for the rest

A released model (tasks/released.py) is such a folder too, with smaller weights and SHA256SUMS.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from relmo.config import CountOrZero, Settings
from relmo.elmo import Elmo
from relmo.elmo_layer import ElmoLayer
from relmo.errors import ConfigError, MissingExtra, ModelNotFound, WeightError
from relmo.files import SEAL, checksum, make_folder, read_json, read_limited, replacing, sha256
from relmo.progress import tell, working
from relmo.runtime.runtime import PrecisionChoice, check_precision
from relmo.tasks.data_files import Part, reading
from relmo.tasks.inputs import Inputs, InputSettings, Letters, make_elmo_layer
from relmo.tasks.labelled import AnyTask, BatchSettings
from relmo.tasks.layer_cache import LayerCache
from relmo.tasks.output_embeddings import OutputEmbeddings
from relmo.tasks.registry import data_facts, find_task, read_parts
from relmo.tasks.sources import Source, check_how_read, has_few, how_read
from relmo.tasks.static_vectors import StaticVectors, random_vectors, read_vectors
from relmo.tasks.tables import DEFAULT_COLUMNS, Columns
from relmo.training.distributed import World, join_world
from relmo.training.optim import OptimSettings
from relmo.training.recipe import make_sections, read_recipe
from relmo.training.run import AGAIN, Run, write_record
from relmo.training.trainer import Trainer, TrainSettings
from relmo.weights.checksums import verify_listed
from relmo.weights.find import TASK_CARD

FIXED = "input", "model", "batch"
"""Sections of a recipe that must not change when a run is resumed."""
RANDOM_WIDTH = 100
"""Width of static vectors that are trained from random values where there is nothing else."""
CARD, WORDS = TASK_CARD, "words.json"
MAX_WORDS_BYTES = 256 * 2**20
LABELS = {"labels", "tags"}
"""Facts that are lists of labels, whose order is that of their numbers."""
LEAST_TEMPERATURE = 0.01
"""Far below any that calibration chooses; at 0 scores would be no numbers."""
OPTIONAL = {"words", "calibration"}
"""Fields of a card that task.json need not have: words have a file of their own, and runs of
earlier versions were not calibrated."""


@dataclass(frozen=True, kw_only=True)
class TaskRecipe(Settings):
    """All settings of a task's run; data, vectors and the ELMo model come with the call."""

    input: InputSettings = field(default_factory=InputSettings)
    model: Settings = field(default_factory=Settings)
    """The task's own settings, of its `settings_type`."""
    batch: BatchSettings = field(default_factory=BatchSettings)
    training: TrainSettings = field(default_factory=lambda: TrainSettings(epochs=1))
    optimizer: OptimSettings = field(default_factory=OptimSettings)


def load_task_recipe(
    task: str,
    name: str | Path | None = None,
    changes: Sequence[str] = (),
    data: str | Path | Source | None = None,
) -> TaskRecipe:
    """The recipe of a task, or another one by its name in the package or its path.

    Args:
        task: its name.
        name: of the recipe; by default the task's own one.
        changes: "section.key=value" each, the value in TOML.
        data: what is trained on. Where there are few examples, a task may have another own recipe.
    """
    kind = find_task(task)  # first: a typo in the task's name is not one in the recipe's
    if name is None:
        is_few = data is not None and kind.few_recipe is not None and has_few(kind, data)
        name = kind.few_recipe if is_few and kind.few_recipe else task
    values = read_recipe("tasks", name, changes)
    return make_task_recipe(task, values, str(name))


def make_task_recipe(task: str, values: Mapping[str, Any], where: str) -> TaskRecipe:
    """The recipe with these values, as TOML has them, checked; errors name `where`."""
    kinds = {**get_type_hints(TaskRecipe), "model": find_task(task).settings_type}
    return TaskRecipe(**make_sections(values, kinds, where))


@dataclass(frozen=True, kw_only=True)
class TaskCard(Settings):
    """What is needed to build a trained model besides its weights: task.json and words.json."""

    task: str
    recipe: dict[str, Any]
    facts: dict[str, Any]
    """What the task found in its training data, such as labels."""
    words: list[str]
    """Words with a static vector, in the order of the rows."""
    static_width: CountOrZero
    letters: list[str] | None
    """Characters of the model's own character CNN; None if it has none."""
    elmo: dict[str, str] | None
    """Name and fingerprint of the ELMo model, and the name or folder it was loaded from."""
    calibration: dict[str, float] = field(default_factory=dict)
    """What makes scores probabilities, found when training ended; empty before."""

    def write(self, folder: Path) -> None:
        """Write both files, in ASCII: a word may contain what UTF-8 cannot encode."""
        make_folder(folder)
        values = asdict(self)
        values[SEAL] = checksum(values)  # of both files
        words = values.pop("words")
        for name, text in ((WORDS, json.dumps(words)), (CARD, json.dumps(values, indent=2))):
            with replacing(folder / name) as temporary:
                temporary.write_text(text + "\n", encoding="ascii")

    @classmethod
    def read(cls, folder: Path) -> TaskCard:
        """Read what `write` wrote."""
        if not (folder / CARD).is_file():
            raise ModelNotFound(f"{folder} is not the folder of a task's run: it has no {CARD}")
        values = read_json(folder / CARD)
        missing = {each.name for each in dataclasses.fields(cls)} - values.keys() - OPTIONAL
        if missing or not (folder / WORDS).is_file():
            what = ", ".join(sorted(missing)) or WORDS
            raise WeightError(f"{folder}: {what} missing; {AGAIN}")
        with _describing(folder):
            words = json.loads(read_limited(folder / WORDS, MAX_WORDS_BYTES).decode("ascii"))
            sealed = values.pop(SEAL, None)  # runs of earlier versions have none
            if sealed not in (None, checksum({**values, "words": words})):
                raise ValueError("the checksum does not match")
            card = cls(words=words, **values)
            strings = [card.task, *card.words, *(card.letters or ()), *(card.elmo or {}).values()]
            if not all(isinstance(each, str) for each in strings):
                raise TypeError("expected strings")
            _check_distinct("words", card.words)
            for name in LABELS & card.facts.keys():
                _check_distinct(name, card.facts[name])
            _check_calibration(card.calibration)
            check_how_read(card.facts.get("source", {}))
        return card

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.elmo is not None and not self.elmo.keys() >= {"name", "fingerprint", "place"}:
            raise ConfigError("elmo must have a name, a fingerprint and a place")


def _check_distinct(what: str, names: Any) -> None:  # noqa: ANN401 - as a file has it
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise TypeError(f"{what} must be a list of strings")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{what} contains {twice!r} twice")


def _check_calibration(found: Mapping[str, Any]) -> None:
    for name, value in found.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        low = 0 if name == "threshold" else LEAST_TEMPERATURE
        if not is_number or not low <= value < math.inf:
            raise ValueError(f"calibration: {name} must be a number ≥ {low:g}, got {value!r}")


@contextmanager
def _describing(folder: Path) -> Iterator[None]:
    """Turn whatever two files of a folder from elsewhere lead to into a WeightError."""
    try:
        yield
    except (WeightError, MissingExtra, torch.OutOfMemoryError):
        raise
    except Exception as error:
        raise WeightError(
            f"{folder}: {CARD} or {WORDS} is damaged, or not of this task ({type(error).__name__}: "
            f"{error}); copy the folder again, or train again"
        ) from error


def train(
    task: str,
    data: str | Path,
    output: str | Path,
    *,
    elmo: Elmo | str | Path | None = "relmo-en-small",
    recipe: str | Path | None = None,
    changes: Sequence[str] = (),
    text: str | None = None,
    label: str | None = None,
    split_seed: int = 0,
    vectors: str | Path | None = None,
    cache: str | Path | None = None,
    resume: bool = False,
    device: str | None = None,
    report: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, float]:
    """Train a task model on labeled data, as `relmo train` does, and return its scores.

    Args:
        task: its name: "ner", "pos", "classify", "multilabel", "snli", "squad", "srl", "coref" …
        data: one file, which is split, or a folder with train, dev and test files.
        output: folder of the run, which `relmo.load` takes.
        elmo: an Elmo, its name or its folder; None trains a baseline without ELMo.
        recipe: name of a recipe or a TOML file; by default the task's own one.
        changes: "section.key=value" each, the value in TOML.
        text: column of a table that holds the texts.
        label: column of a table that holds the labels.
        split_seed: random seed of the split of one file.
        vectors: static word vectors in the text format of GloVe or word2vec.
        cache: folder for ELMo's layers of the data; OUTPUT/cache by default.
        resume: continue an interrupted run.
        device: "cpu", "cuda" …; by default, a GPU if there is one.
        report: called with each line of metrics.
    """
    if isinstance(changes, str):
        raise ConfigError(f"changes must be a list of strings, got {changes!r}; use [{changes!r}]")
    if split_seed < 0:
        raise ConfigError(f"split_seed must be an integer ≥ 0, got {split_seed}")
    source = Source(Path(data), Columns(text, label), split_seed)
    chosen = load_task_recipe(task, recipe, changes, source)
    if vectors is None and (chosen.input.random_width or elmo is None):
        tell("relmo: no static vectors given: word vectors are trained from scratch")
    return train_task(
        task, chosen, source, output, elmo=elmo, vectors=vectors, cache=cache, resume=resume,
        device=device, report=report,
    )  # fmt: skip


def train_task(
    name: str,
    recipe: TaskRecipe,
    data: str | Path | Source,
    output: str | Path,
    *,
    elmo: Elmo | str | Path | None = None,
    vectors: str | Path | None = None,
    cache: str | Path | None = None,
    resume: bool = False,
    device: str | None = None,
    report: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, float]:
    """Train a task's model, evaluate it on the test part and write the record.

    Args:
        name: of the task.
        recipe: its settings.
        data: folder with the files of the parts, or one file, which is split; a `Source` names the
            columns of tables and the seed of the split too.
        output: folder of the run.
        elmo: the ELMo model, its name or its folder; None trains the baseline without ELMo. The
            model is not changed: fine-tuning trains a copy.
        vectors: file of static vectors; by default, random ones are trained.
        cache: folder for ELMo's layers of the data; OUTPUT/cache by default.
        resume: continue from the last checkpoint.
        device: "cpu", "cuda" …; by default, a GPU if there is one.
        report: called with each line of metrics.
    """
    run, world = Run(Path(output)), join_world(device)
    vectors = None if vectors is None else Path(vectors)
    if world.size > 1:
        raise ConfigError("a task is trained by one process; start one process per run")
    with run.opened(resume=resume):
        return _train_task(
            run, name, recipe, data, elmo, vectors, Path(cache or run.folder / "cache"), resume,
            world, report,
        )  # fmt: skip


def _train_task(
    run: Run,
    name: str,
    recipe: TaskRecipe,
    data: str | Path | Source,
    elmo: Elmo | str | Path | None,
    vectors: Path | None,
    cache: Path,
    resume: bool,
    world: World,
    report: Callable[[dict[str, Any]], None],
) -> dict[str, float]:
    """Train in an opened run; see `train_task`."""
    task_type = find_task(name)
    task_type.check_input(recipe.input, elmo is not None)
    all_examples = read_parts(name, data)
    drawn = draw(all_examples["train"], recipe.batch.share, recipe.training.seed)
    task_type.check_training(drawn)
    examples = {**all_examples, "train": drawn}
    with working("loading ELMo"):
        model, elmo_facts = (None, None) if elmo is None else _open_elmo(elmo, world.device)
    words = {
        part: {word for e in found for sentence in task_type.sentences(e) for word in sentence}
        for part, found in examples.items()
    }
    width = recipe.input.random_width or (0 if elmo is not None else RANDOM_WIDTH)
    with working("reading word vectors"):
        static, vector_facts = _static_vectors(words, vectors, width, recipe.input.static_words)
    if vectors is None:  # random ones are worthless unless they are trained
        recipe = replace(recipe, input=replace(recipe.input, tune_static=True))
    made_of: dict[str, Any] = {
        "data": {**data_facts(name, data, examples), "share": recipe.batch.share},
        "vectors": vector_facts,
        "elmo": elmo_facts and {key: elmo_facts[key] for key in ("name", "fingerprint")},
    }
    defaults = {part: asdict(type(getattr(recipe, part))()) for part in FIXED}
    run.check_settings(_fixed(name, recipe, made_of), defaults=defaults)
    layer = layers = None
    if model is not None:
        layer = make_elmo_layer(model, recipe.input)
        if not recipe.input.finetune and recipe.input.layers != "token":
            parts = all_examples.values()  # all examples: runs on other shares use the same cache
            sentences = (s for part in parts for e in part for s in task_type.sentences(e))
            layers = layer.layers_from = LayerCache(model, sentences, cache)
    card = TaskCard(
        task=name,
        recipe=asdict(recipe),
        facts={**task_type.facts_of(drawn), "source": how_read(made_of["data"])},
        words=static.words,
        static_width=static.size["width"],
        letters=sorted(set().union(*words["train"])) if recipe.input.letters else None,
        elmo=elmo_facts,
    )
    torch.manual_seed(recipe.training.seed)
    task = _make_task(card, recipe, static, layer, world.device, examples)
    if not task.train:
        longest = recipe.batch.max_length
        raise ConfigError(f"all training examples are longer than batch.max_length = {longest}")
    card.write(run.folder)
    trainer = Trainer(task, recipe.training, recipe.optimizer, run, world, report)
    scores, counts = _fit(trainer, task, examples, resume)
    replace(card, calibration=task.calibration()).write(run.folder)
    cached = {"recipe": card.recipe, "cache": None if layers is None else layers.meta}
    measured = {"results": scores, "curve": run.curve(task.score), "test_counts": counts}
    record = {"task": name, **made_of, **cached, **_outcome(trainer, task), **measured}
    write_record(run.record_path, record, world)
    return scores


def _static_vectors(
    words: Mapping[Part, set[str]], path: Path | None, width: int, first: int
) -> tuple[StaticVectors, dict[str, Any] | None]:
    """Vectors of the words of all parts from a file, or random ones of the training part's.

    If the file's first words are wanted, those of the training part alone join them.
    """
    if path is None:
        return random_vectors(words["train"], width), None
    with reading(path):
        wanted = words["train"] if first else set().union(*words.values())
        static = read_vectors(path, wanted, first)
    return static, {"name": path.name, "sha256": sha256(path), **static.size}


def _outcome(trainer: Trainer, task: AnyTask) -> dict[str, Any]:
    return {
        "seed": trainer.settings.seed,
        "parameters": sum(p.numel() for p in task.model.parameters() if p.requires_grad),
        "steps": trainer.step,
        "best_step": trainer.best.step,
        "seconds": round(trainer.seconds, 1),
        "mixes": task.mixes(),
    }


def load_task(
    folder: str | Path,
    *,
    elmo: Elmo | str | Path | None = None,
    device: str | None = None,
    precision: PrecisionChoice = "float32",
) -> AnyTask:
    """A trained task's model, ready to predict.

    Args:
        folder: of the run.
        elmo: the ELMo model, its name or its folder; by default, from where it was loaded for the
            run.
        device: "cpu", "cuda" …; by default, a GPU if there is one.
        precision: of ELMo's matrix products; the run was trained with "float32".
    """
    check_precision(precision)
    folder = Path(folder)
    run, world = Run(folder), join_world(device)
    card = TaskCard.read(folder)
    verify_listed([folder / CARD, folder / WORDS, run.best_path], AGAIN)
    recipe = make_task_recipe(card.task, card.recipe, str(folder / CARD))
    layer = None
    if card.elmo is not None:
        model = _reopen_elmo(folder, card.elmo, elmo, world.device)
        model.runtime.fast.use_precision(precision)
        layer = make_elmo_layer(model, recipe.input)
    with _describing(folder):
        shape = len(card.words) + 2, card.static_width
        static = StaticVectors(card.words, np.broadcast_to(np.float32(0), shape))
        with torch.device("meta") as meta, _Unfilled():  # claimed sizes take no memory here
            run.check_best(_make_task(card, recipe, static, layer, meta, {}).model)
        with _Unfilled():
            task = _make_task(card, recipe, static, layer, world.device, {})
            task.use_calibration(card.calibration)
    run.load_best(task.model)
    task.model.eval().requires_grad_(False)
    return task


class _Unfilled(TorchFunctionMode):
    """Within it a model's weights are not drawn: those of a file replace them all.

    Orthogonal ones alone would take longer than everything else that loading does.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - what the function returns
        """Call the function, unless it draws weights."""
        kwargs = kwargs or {}
        if func is torch.linalg.qr:
            return args[0], args[0]
        is_init = getattr(func, "__module__", "") == nn.init.__name__
        if is_init or func in (Tensor.normal_, Tensor.uniform_):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def draw(examples: Sequence[Any], share: float, seed: int) -> list[Any]:
    """A random share of the examples, at least one, in their order."""
    if share == 1 or not examples:
        return list(examples)
    count = max(1, round(share * len(examples)))
    chosen = np.random.default_rng((seed, 3)).permutation(len(examples))[:count]
    return [examples[i] for i in np.sort(chosen)]


def _open_elmo(elmo: Elmo | str | Path, device: torch.device) -> tuple[Elmo, dict[str, str]]:
    """The model on the device, and what is needed to find it again."""
    model = elmo if isinstance(elmo, Elmo) else Elmo.from_pretrained(elmo, device=device)
    place = model.config.name
    if not isinstance(elmo, Elmo):
        place = str(Path(elmo).resolve()) if Path(elmo).is_dir() else str(elmo)
    facts = {"name": model.config.name, "fingerprint": model.fingerprint(), "place": place}
    return model.to(device), facts


def _reopen_elmo(
    folder: Path, known: dict[str, str], elmo: Elmo | str | Path | None, device: torch.device
) -> Elmo:
    """The model that a run was trained with, which its card knows."""
    name = known["name"]
    try:
        model, facts = _open_elmo(elmo or known["place"], device)
    except ModelNotFound as error:
        raise ModelNotFound(f"{folder} needs {name}; give it with --elmo: {error}") from error
    is_same = known["fingerprint"] == facts["fingerprint"]
    if not is_same and model.precision != "float32":  # an Elmo that is given may be in any
        is_same = known["fingerprint"] == model.fingerprint("float32")
    if not is_same:
        raise ConfigError(f"{folder} was trained with another {name}; give that model")
    return model


def _make_task(
    card: TaskCard,
    recipe: TaskRecipe,
    static: StaticVectors,
    layer: ElmoLayer | None,
    device: torch.device,
    examples: Mapping[Part, Sequence[Any]],
) -> AnyTask:
    letters = None if card.letters is None else Letters(card.letters)
    inputs = Inputs(static, letters, layer, device, _output_embeddings(recipe.input, layer))
    return find_task(card.task)(
        recipe.model, card.facts, inputs, inputs.make_module(recipe.input),
        examples.get("train", ()), examples.get("dev", ()), recipe.batch, recipe.training.seed,
    )  # fmt: skip


def _output_embeddings(settings: InputSettings, layer: ElmoLayer | None) -> OutputEmbeddings | None:
    if not settings.output_embeddings:
        return None
    if layer is None:
        raise ConfigError(
            "input.output_embeddings needs an ELMo model: give one, or set it to false"
        )
    return OutputEmbeddings(layer.elmo)


def _fit(
    trainer: Trainer, task: AnyTask, examples: Mapping[Part, Sequence[Any]], resume: bool
) -> tuple[dict[str, float], list[Any] | None]:
    """Train and calibrate; return scores on the dev and test parts, and the test counts."""
    try:
        scores, test = trainer.fit(resume), examples["test"]
        with working("calibrating scores"):
            task.calibrate(examples["dev"])
        if not test:
            return scores, None
        with working("scoring the test set"):
            predictions = task.predict(test, what=f"scoring the test set: {task.noun}")
            task.review(test, predictions)
            found = {**task.scores(test, predictions), **task.extra_scores(test, predictions)}
            found |= task.calibration_error(test)
            counts = task.counts(test, predictions)
        return scores | {f"test_{name}": value for name, value in found.items()}, counts
    except torch.OutOfMemoryError as error:
        raise ConfigError(
            f"batches of {task.batches.size} examples need more memory than the GPU has; lower "
            f"batch.size, or leave out long examples with batch.max_length"
        ) from error


def _fixed(name: str, recipe: TaskRecipe, made_of: Mapping[str, Any]) -> dict[str, Any]:
    """What must not change when a run is resumed; names and places of files may."""
    values = asdict(recipe)
    data, vectors, elmo = made_of["data"], made_of["vectors"], made_of["elmo"]
    columns = data.get("columns")
    return {
        "task": name,
        **{part: values[part] for part in FIXED},
        "accumulate": recipe.training.accumulate,
        "seed": recipe.training.seed,
        "data": {part: file["sha256"] for part, file in data["files"].items()},
        "columns": columns if columns != DEFAULT_COLUMNS._asdict() else None,
        "split": data.get("split"),
        "vectors": vectors and vectors["sha256"],
        "elmo": elmo and elmo["fingerprint"],
    }
