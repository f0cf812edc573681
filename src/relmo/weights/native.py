"""relmo's own layout: config.json + model.safetensors (or shards and their index) + vocab.txt.

Names are the module tree's, start_state.{forward,backward}.{h,c} apart. Biases are stored as in
the official file, without the forget gate's 1.0: only so is the way there and back bit-identical.
config.json records size and sha256 of the other files. A new model is written whole into a corner
of the folder and made the model by one rename, so a crash leaves the old one or the new one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

from torch import Tensor

from relmo.config import ElmoConfig
from relmo.errors import ConfigError, OutputError, WeightError
from relmo.files import (
    explain,
    make_folder,
    read_json,
    replacing_folder,
    sha256,
    sync_folder,
    write_json,
)
from relmo.text.lexicon import Lexicon
from relmo.weights.int8 import SCALE
from relmo.weights.lm_head_files import head_files, read_head, write_head
from relmo.weights.model_card import model_card
from relmo.weights.safetensors_files import (
    FIXED_BYTES,
    bytes_in_file,
    check_storage,
    pack,
    read_tensors,
    save_tensors,
    shard_names,
    tensor_names,
)
from relmo.weights.tensors import (
    START_NAMES,
    ModelFiles,
    Storage,
    check_finite,
    check_names,
    check_shape,
    expected_shapes,
    with_file_names,
)

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
VOCAB = "vocab.txt"
CARD = "README.md"
COMMITTED = ".relmo-committed"
"""Where a model lies that is written whole but not yet moved to its places."""
HINT = "is config.json from the same model? Run 'relmo info FOLDER' to check its checksums"


class Native:
    """Reads and writes relmo's own layout."""

    name = "native"
    wanted = "config.json and model.safetensors (or model.safetensors.index.json)"

    def detect(self, folder: Path) -> bool:
        """Whether config.json and weights are there."""
        finish_move(folder)
        return (folder / "config.json").is_file() and (
            (folder / SINGLE).is_file() or (folder / INDEX).is_file()
        )

    def read(self, folder: Path) -> ModelFiles:
        """Read and check settings, weights and word list."""
        config, recorded = read_config(folder)
        check_sizes(folder, recorded)
        storage = read_storage(folder)
        wanted = {START_NAMES.get(n, n): (n, shape) for n, shape in expected_shapes(config).items()}
        where = tensor_files(folder, recorded)
        names = {name for name in where if storage != "int8" or not name.endswith(SCALE)}
        check_names(names, set(wanted), folder, HINT)
        tensors: dict[str, Tensor] = {}
        for file in sorted(set(where.values())):
            here = [name for name, home in where.items() if home == file]
            for name, tensor in read_tensors(folder / file, here, storage).items():
                module_name, shape = wanted[name]
                check_shape(folder / file, name, tuple(tensor.shape), tuple(shape), HINT)
                check_finite(folder / file, name, tensor)
                tensors[module_name] = tensor
        has_words = VOCAB in recorded if recorded else (folder / VOCAB).is_file()
        lexicon = Lexicon.read(folder / VOCAB) if has_words else None
        head = None
        softmax = head_files(recorded, folder)
        if softmax and lexicon is not None:
            size = len(lexicon), config.lstm.output_width
            head = partial(read_head, folder, softmax, storage, size)
        return ModelFiles(config, tensors, lexicon, head)

    def lost(self, model: ModelFiles) -> list[str]:
        """Nothing: this layout holds everything."""
        return []

    def write(
        self,
        folder: Path,
        model: ModelFiles,
        shard_bytes: int | None = None,
        storage: Storage = "float32",
    ) -> None:
        """Write the folder: all files in a corner of it first, then moved to their places.

        Args:
            folder: made if it is not there.
            model: what to write.
            shard_bytes: bytes of a file of weights at most; None sets no bound.
            storage: "int8" takes a quarter of the room and rounds the weights.
        """
        check_storage(storage)
        with replacing_model(folder) as stage:
            self._write_all(stage, model, shard_bytes, storage)

    def _write_all(
        self, stage: Path, model: ModelFiles, shard_bytes: int | None, storage: Storage
    ) -> None:
        tensors = with_file_names(model.tensors)
        written = write_shards(stage, pack(tensors, storage), shard_bytes)
        if model.lm_head is not None:
            written += write_head(stage, model.lm_head(), storage, shard_bytes)
        if model.lexicon is not None:
            model.lexicon.write(stage / VOCAB)
            written.append(VOCAB)
        sizes = {name: (stage / name).stat().st_size for name in written}
        files = {n: {"bytes": size, "sha256": sha256(stage / n)} for n, size in sizes.items()}
        words = None if model.lm_head is None or model.lexicon is None else len(model.lexicon)
        card = model_card(model.config, words, storage, sum(sizes.values()))
        (stage / CARD).write_text(card, encoding="utf-8")
        about = {"storage": storage, "files": files}
        write_json(stage / "config.json", {**model.config.to_dict(), **about})


@contextmanager
def replacing_model(folder: Path) -> Iterator[Path]:
    """Hand out a corner of the folder for all files of a model, which then becomes the model."""
    make_folder(folder)
    finish_move(folder)
    with replacing_folder(folder / COMMITTED) as stage:
        yield stage
    finish_move(folder)  # from the rename on, the new model is the model


def finish_move(folder: Path) -> None:
    """Take a model that was written whole to its places, also after a crash on the way.

    The old model's own files go; all others in the folder are not ours and stay.
    """
    stage = folder / COMMITTED
    if not stage.is_dir():
        return
    with explain(folder):
        if (stage / "config.json").is_file():
            new = read_json(stage / "config.json").get("files", {})
            old = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
            recorded = old.get("files", {}) if old.get("format") == "relmo" else {}
            for name in [*new, "config.json"]:
                if (stage / name).is_file():
                    (stage / name).replace(folder / name)
            for stale in set(recorded) - set(new):
                (folder / Path(stale).name).unlink(missing_ok=True)
            if not (folder / CARD).exists() and (stage / CARD).is_file():
                (stage / CARD).replace(folder / CARD)  # one that was edited stays
            sync_folder(folder)
        shutil.rmtree(stage, ignore_errors=True)


def read_config(folder: Path) -> tuple[ElmoConfig, dict[str, dict[str, Any]]]:
    """Settings, and what config.json records of the other files: {name: {bytes, sha256}}."""
    values = read_json(folder / "config.json")
    recorded = values.pop("files", {})
    values.pop("storage", None)
    try:
        if not isinstance(recorded, dict) or not all(
            isinstance(facts, dict) and facts.keys() >= {"bytes", "sha256"}
            for facts in recorded.values()
        ):
            raise ConfigError("'files' must give bytes and sha256 of each file")
        return ElmoConfig.from_dict(values), recorded
    except ConfigError as error:
        raise WeightError(f"{folder / 'config.json'}: {error}") from error


def read_storage(folder: Path) -> Storage:
    """How config.json says that the weights are stored."""
    path = folder / "config.json"
    storage = read_json(path).get("storage", "float32")
    if storage not in get_args(Storage):
        raise WeightError(
            f"{path}: storage is {storage!r}, this relmo reads {' and '.join(get_args(Storage))}; "
            f"is it of a newer release?"
        )
    return cast("Storage", storage)


def check_sizes(folder: Path, recorded: dict[str, dict[str, Any]]) -> None:
    """Raise WeightError if a file is not as long as config.json says: cheap, at every load."""
    for name, facts in recorded.items():
        path = folder / name
        found = path.stat().st_size if path.is_file() else None
        if found != facts["bytes"]:
            came = "is missing" if found is None else f"has {found} bytes"
            raise WeightError(
                f"{path}: {came}, config.json recorded {facts['bytes']}; "
                f"the copy was interrupted or the files are of two models: copy the folder again"
            )


def tensor_files(folder: Path, recorded: Mapping[str, Any]) -> dict[str, str]:
    """Name of each tensor -> the file that holds it: as recorded, or else by what is there."""
    is_single = SINGLE in recorded if recorded else (folder / SINGLE).is_file()
    if is_single:
        return dict.fromkeys(tensor_names(folder / SINGLE), SINGLE)
    weight_map = read_json(folder / INDEX).get("weight_map")
    if not isinstance(weight_map, dict):
        raise WeightError(f"{folder / INDEX}: lacks 'weight_map', which names each tensor's shard")
    if not all(
        isinstance(shard, str) and Path(shard).name == shard for shard in weight_map.values()
    ):
        raise WeightError(f"{folder / INDEX}: shards must be plain file names in the same folder")
    for shard in sorted(set(weight_map.values())):
        if not (folder / shard).is_file():
            raise WeightError(f"{folder / INDEX}: names {shard!r}, which is missing; copy it too")
    return dict(weight_map)


def write_shards(folder: Path, tensors: dict[str, Tensor], shard_bytes: int | None) -> list[str]:
    """Write one file, or shards and their index; give the names of the files written."""
    groups = plan_shards(tensors, shard_bytes)
    if len(groups) == 1:
        save_tensors(folder / SINGLE, tensors)
        return [SINGLE]
    files = shard_names("model", len(groups))
    for file, names in zip(files, groups, strict=True):
        save_tensors(folder / file, {name: tensors[name] for name in names})
    total = sum(tensor.nbytes for tensor in tensors.values())
    weight_map = {name: f for f, names in zip(files, groups, strict=True) for name in names}
    write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": weight_map})
    return [*files, INDEX]


def plan_shards(tensors: dict[str, Tensor], shard_bytes: int | None) -> list[list[str]]:
    """Names of each shard's tensors, in order; a tensor is never split, nor from its scale."""
    if shard_bytes is None:
        return [list(tensors)]
    groups: list[list[str]] = [[]]
    room = shard_bytes - FIXED_BYTES
    for name in tensors:
        if name.endswith(SCALE):
            continue
        unit = [each for each in (name, name + SCALE) if each in tensors]
        size = bytes_in_file({each: tensors[each] for each in unit})
        if size > shard_bytes - FIXED_BYTES:
            raise OutputError(
                f"{name!r} has {size:,} bytes, a shard may have {shard_bytes:,}; "
                f"allow larger shards"
            )
        if size > room:
            groups.append([])
            room = shard_bytes - FIXED_BYTES
        groups[-1] += unit
        room -= size
    return groups
