"""Find, read, describe and convert a model: a folder in any known layout, or an installed model.

FORMATS lists the layouts of a model folder; a new one implements `weights.tensors.ModelFormat`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from relmo.config import CharCnnConfig, ElmoConfig, LstmConfig, check_choice, nearest
from relmo.errors import ConfigError, ModelNotFound, WeightError
from relmo.files import sha256
from relmo.nn.bilm import BiLM, initialize
from relmo.weights.checksums import read_sums
from relmo.weights.native import CONFIG, Native, read_config
from relmo.weights.official_hdf5 import OfficialHdf5
from relmo.weights.safetensors_files import check_storage
from relmo.weights.tensors import ModelFiles, ModelFormat, Storage, tensors_of

FORMATS: dict[str, ModelFormat] = {each.name: each for each in (Native(), OfficialHdf5())}
ENTRY_POINTS = "relmo.models"
"""A model package registers NAME -> MODULE in this group; the module's folder is the model's."""
PACKAGES = {"relmo-en-base": "./models/relmo-en-base"}
"""Our own model packages that are not part of relmo -> their folder in a clone of relmo."""
TASK_PACKAGES = {
    "relmo-en-emotion": "./models/relmo-en-tasks",
    "relmo-en-base-emotion": "./models/relmo-en-base-tasks",
    "relmo-en-base-pos": "./models/relmo-en-base-tasks",
}
"""The same of our task models, several in each package."""
TASK_CARD = "task.json"
"""What makes a folder a task model, or the run of one (`tasks/run.py`)."""
Kind = Literal["ELMo", "task"]
UNTRAINED = "relmo-untrained"
"""A model without files: the official small shapes with random weights."""
ROUNDED = "8-bit storage rounds the weights: vectors change slightly, files shrink to a quarter"


def read_model(name: str | Path, *, verify: bool = True) -> ModelFiles:
    """The model with this name or folder, in whatever layout it is.

    `verify` compares its files with the checksums that were recorded when they were written.
    """
    if name == UNTRAINED:
        config = small_config()
        return ModelFiles(config, dict(tensors_of(initialize(BiLM(config), seed=0))))
    folder = find_model(name, kind="ELMo")
    return detect(folder, name).read(folder, verify=verify)


def small_config() -> ElmoConfig:
    """The official small shapes: 2 x 1024 cells, width 128 per direction, one highway."""
    return ElmoConfig(
        name=UNTRAINED,
        tokens=CharCnnConfig(width=128, num_highways=1),
        lstm=LstmConfig(cell_width=1024, output_width=128),
    )


def find_model(name: str | Path, *, kind: Kind | None = None) -> Path:
    """The folder of a model. A path wins over a name; nothing is ever downloaded.

    `kind` is what is looked for: an error then lists the installed models of that kind alone.
    """
    if not str(name):
        raise ModelNotFound("the model name is empty; give a folder or the name of a model")
    path = Path(name).expanduser()
    if _succeeds(path.is_dir):
        return path
    bundled = _bundled() / str(name)
    if path.name == str(name) and _succeeds(bundled.is_dir):
        return bundled
    if installed := _installed(str(name)):
        return installed
    if _succeeds(path.is_file):
        raise ModelNotFound(f"{path} is a file; give the folder that contains it")
    raise ModelNotFound(_not_found(str(name), kind))


def _not_found(name: str, kind: Kind | None) -> str:
    ours, known = {**PACKAGES, **TASK_PACKAGES}, known_models(kind)
    advice = "download the model's files and give their folder"
    if name in ours:
        advice = f"in a clone of relmo, pip install {ours[name]}"
    names = {*known_models(), *ours} - {name}
    near = nearest(name, names) or sorted(each for each in names if each.endswith(f"-{name}"))
    why = ": it is neither a folder nor an installed model"
    if near and name not in ours:
        why = f"; did you mean {near[0]!r}?"
        if near[0] in ours and near[0] not in known_models():
            advice = f"in a clone of relmo, pip install {ours[near[0]]}"
    what = "task model" if kind == "task" else "model"
    return (
        f"no {what} {name!r}{why} (installed: {', '.join(known) or 'none'}). relmo does not "
        f"download models: {advice}"
    )


def known_models(kind: Kind | None = None) -> list[str]:
    """The names that need no path, of all models or of one kind."""
    home = _bundled()
    places = {entry.name: _folder_of(entry) for entry in entry_points(group=ENTRY_POINTS)}
    places |= {path.name: path for path in home.iterdir() if path.is_dir()} if home.is_dir() else {}
    places[UNTRAINED] = None
    tasks = {name for name, place in places.items() if place and is_task_model(place)}
    return sorted({"ELMo": places.keys() - tasks, "task": tasks}.get(kind or "", {*places}))


def is_task_model(folder: Path) -> bool:
    """Whether the folder is a task model, or the run of one, instead of an ELMo's."""
    return (folder / TASK_CARD).is_file()


def _succeeds(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except (OSError, ValueError):  # the name is too long, or contains NUL
        return False


def _installed(name: str) -> Path | None:
    """The folder of a model of an installed package."""
    found = map(_folder_of, entry_points(group=ENTRY_POINTS, name=name))
    return next((folder for folder in found if folder), None)


def _folder_of(entry: EntryPoint) -> Path | None:
    """The folder that an entry point names: located like an import, without importing anything.

    Of "package.model" the inner folder needs no __init__.py, as it contains no code.
    """
    top, *inner = entry.module.split(".")
    with suppress(ImportError, ValueError):  # a package that was only partly removed
        spec = find_spec(top)  # of "a.b" it would import a
        for place in (spec.submodule_search_locations if spec else None) or ():
            if (folder := Path(place, *inner)).is_dir():
                return folder
    return None


def _bundled() -> Path:
    return Path(str(files("relmo"))) / "models"


def detect(folder: Path, name: str | Path | None = None) -> ModelFormat:
    """The format of the ELMo in a folder; errors call it by the name, if one is given."""
    if not folder.is_dir():
        raise ModelNotFound(f"{folder}: no such folder; give the folder that contains the model")
    for each in FORMATS.values():
        if each.detect(folder):
            return each
    if (folder / "model").is_dir() and any(f.detect(folder / "model") for f in FORMATS.values()):
        raise ModelNotFound(f"{folder} is a run; its model is {folder / 'model'}: give that folder")
    if is_task_model(folder):
        called = str(name or folder)
        raise ModelNotFound(
            f"{called} is a task model, not an ELMo; load it with relmo.load({called!r}), or apply "
            f"it to text with relmo predict"
        )
    if (folder / "checkpoint").is_dir():
        what = "an unfinished run, which has no model yet; finish it with relmo pretrain --resume"
        raise ModelNotFound(f"{folder} is {what}")
    tried = "; ".join(f"{each.name}: {each.needs}" for each in FORMATS.values())
    names = sorted(path.name for path in folder.iterdir())
    seen = ", ".join(names[:8]) + (" …" if len(names) > 8 else "") if names else "nothing"
    raise WeightError(f"{folder}: unknown model layout. Tried {tried}. The folder contains {seen}")


def describe_model(name: str | Path) -> dict[str, Any]:
    """Sizes, training record, licence, fingerprint and checksums of a model, checked in full.

    The fingerprint is that of `Elmo.from_pretrained(name)` in float32.
    """
    model = read_model(name, verify=False)  # each file's result is in the description
    config = model.config
    tokens = dataclasses.asdict(config.tokens)
    if isinstance(config.tokens, CharCnnConfig):
        tokens["alphabet"] = len(config.tokens.alphabet)
    return {
        "model": config.name or Path(name).name,
        "layers": config.num_layers,
        "width": config.width,
        "parameters": sum(tensor.numel() for tensor in model.tensors.values()),
        "softmax": len(model.lexicon) if model.lm_head and model.lexicon else None,
        "tokens": tokens,
        "lstm": dataclasses.asdict(config.lstm),
        "tokenizer": config.tokenizer,
        "start": config.start,
        "licence": config.licence or "not stated",
        "training": dict(config.training) or "not recorded",
        "fingerprint": model.fingerprint(),
        **({} if name == UNTRAINED else describe_folder(find_model(name))),
    }


def describe_folder(folder: Path) -> dict[str, Any]:
    """The folder and format of a model, and size and sha256 of its files.

    `matches` compares the checksum with the one that was recorded when the model was written; it is
    None if none was recorded.
    """
    found, facts = detect(folder), {}
    paths = {path.name: path for path in sorted(folder.iterdir()) if path.is_file()}
    listed = read_sums(folder)
    expected = {name: listed[path] for name, path in paths.items() if path in listed}
    record = read_config(folder, verify=False) if isinstance(found, Native) else None
    if record is not None:
        paths |= {file: record.path(file) for file in record.files}
        expected = {file: about["sha256"] for file, about in record.files.items()}
    for file, path in paths.items():
        checksum = sha256(path)
        matches = checksum == expected[file].lower() if file in expected else None
        if record is not None and file == CONFIG:
            matches = record.is_sealed
        facts[file] = {"bytes": path.stat().st_size, "sha256": checksum, "matches": matches}
    return {"folder": str(folder), "format": found.name, "files": facts}


@dataclasses.dataclass(frozen=True, slots=True)
class ConvertReport:
    """What was converted."""

    source: str
    target: str
    target_format: str
    tensors: int
    parameters: int
    lost: tuple[str, ...]
    """What the target does not contain, in words."""


def convert_model(
    source: str | Path,
    target: str | Path,
    to: str,
    shard_mb: int | None = None,
    storage: Storage = "float32",
) -> ConvertReport:
    """Read the model at `source` and write it to the folder `target` in the format `to`.

    Args:
        source: Folder or name of a model, in any known layout.
        target: Folder to write.
        to: "native" or "hdf5".
        shard_mb: Native only: maximum size of a weight file in megabytes.
        storage: Native only: "int8" rounds matrices to 8 bits per row.
    """
    target = Path(target)
    check_choice("format", to, FORMATS)
    writer = FORMATS[to]
    check_storage(storage)
    if shard_mb is not None and shard_mb < 1:
        raise ConfigError(f"shard_mb must be an integer ≥ 1, got {shard_mb}")
    if source != UNTRAINED and target.resolve() == find_model(source).resolve():
        raise ConfigError(f"{target}: source and target are the same folder; choose another target")
    for other in FORMATS.values():
        if other is not writer and other.detect(target):
            raise ConfigError(
                f"{target} contains a model in the {other.name} format; choose another target"
            )
    model = read_model(source)
    writer.write(target, model, None if shard_mb is None else shard_mb * 10**6, storage)
    rounded = [ROUNDED] if storage == "int8" else []
    return ConvertReport(
        source=str(source),
        target=str(target),
        target_format=to,
        tensors=len(model.tensors),
        parameters=sum(tensor.numel() for tensor in model.tensors.values()),
        lost=(*writer.lost(model), *rounded),
    )
