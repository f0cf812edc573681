"""relmo's own layout: config.json + model.safetensors (or shards and their index) + vocab.txt.

Tensors have the names of the module tree, except start_state.{forward,backward}.{h,c}. Biases are
stored as in the official file, without the forget gate's 1.0: only so is a round trip
bit-identical. config.json records size and sha256 of the other files. A new model is written
completely into a hidden subfolder, which one rename makes valid; its files then move up. A crash
before the rename leaves the old model; one after it is repaired when the folder is next opened.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

from torch import Tensor

from relmo.config import ElmoConfig
from relmo.errors import ConfigError, WeightError
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
from relmo.weights.model_card import model_card
from relmo.weights.safetensors_files import (
    INDEX,
    SCALE,
    SINGLE,
    check_storage,
    head_files,
    pack,
    read_head,
    read_tensors,
    tensor_files,
    write_head,
    write_shards,
)
from relmo.weights.tensors import (
    START_NAMES,
    ModelFiles,
    Storage,
    check_finite,
    check_names,
    check_shape,
    expected_shapes,
)

VOCAB = "vocab.txt"
CARD = "README.md"
COMMITTED = ".relmo-committed"
"""The subfolder of a model that is complete but not yet moved to its place."""
HINT = "is config.json from the same model? Run 'relmo info FOLDER' to verify its checksums"


class Native:
    """Reads and writes relmo's own layout."""

    name = "native"
    needs = "config.json and model.safetensors (or model.safetensors.index.json)"

    def detect(self, folder: Path) -> bool:
        """Whether the folder contains config.json and weights."""
        finish_move(folder)
        return (folder / "config.json").is_file() and (
            (folder / SINGLE).is_file() or (folder / INDEX).is_file()
        )

    def read(self, folder: Path) -> ModelFiles:
        """Read and check settings, weights and vocabulary."""
        record = read_config(folder)
        config, storage, recorded = record.config, record.storage, record.files
        check_sizes(folder, recorded)
        wanted = {START_NAMES.get(n, n): (n, shape) for n, shape in expected_shapes(config).items()}
        where = tensor_files(folder, recorded)
        names = {name for name in where if storage != "int8" or not name.endswith(SCALE)}
        check_names(names, set(wanted), folder, HINT)
        tensors: dict[str, Tensor] = {}
        for file in sorted(set(where.values())):
            here = [name for name, home in where.items() if home == file]
            for name, tensor in read_tensors(folder / file, here, storage).items():
                module_name, shape = wanted[name]
                check_shape(folder / file, name, tensor.shape, shape, HINT)
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
        """Nothing: this layout stores everything."""
        return []

    def write(
        self,
        folder: Path,
        model: ModelFiles,
        shard_bytes: int | None = None,
        storage: Storage = "float32",
    ) -> None:
        """Write the folder: all files into a subfolder first, then moved to their places.

        `shard_bytes` is the maximum size of a weight file; None means no limit. "int8" storage
        takes a quarter of the space and rounds the weights.
        """
        check_storage(storage)
        with replacing_model(folder) as stage:
            tensors = {START_NAMES.get(name, name): each for name, each in model.tensors.items()}
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
    """Yield a subfolder for all files of a model; on exit it becomes the model."""
    make_folder(folder)
    finish_move(folder)
    with replacing_folder(folder / COMMITTED) as stage:
        yield stage
    finish_move(folder)  # from the rename on, the new model is the model


def finish_move(folder: Path) -> None:
    """Move a completely written model to its place, also after a crash during the move.

    The old model's own files are deleted; other files in the folder are not ours and stay.
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
                (stage / CARD).replace(folder / CARD)  # an edited one stays
            sync_folder(folder)
        shutil.rmtree(stage, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class NativeRecord:
    """The content of config.json."""

    config: ElmoConfig
    storage: Storage
    files: dict[str, dict[str, Any]]
    """The other files: {name: {bytes, sha256}}."""


def read_config(folder: Path) -> NativeRecord:
    """Read and check config.json."""
    path = folder / "config.json"
    values = read_json(path)
    storage, files = values.pop("storage", "float32"), values.pop("files", {})
    if storage not in get_args(Storage):
        raise WeightError(
            f"{path}: storage is {storage!r}, this relmo reads {' and '.join(get_args(Storage))}; "
            f"was it written by a newer release?"
        )
    if not isinstance(files, dict) or not all(
        isinstance(facts, dict) and facts.keys() >= {"bytes", "sha256"} for facts in files.values()
    ):
        raise WeightError(f"{path}: 'files' must give bytes and sha256 of each file")
    try:
        return NativeRecord(ElmoConfig.from_dict(values), storage, files)
    except ConfigError as error:
        raise WeightError(f"{path}: {error}") from error


def check_sizes(folder: Path, recorded: dict[str, dict[str, Any]]) -> None:
    """Raise WeightError unless every file has its recorded size; cheap enough for every load."""
    for name, facts in recorded.items():
        path = folder / name
        found = path.stat().st_size if path.is_file() else None
        if found != facts["bytes"]:
            came = "is missing" if found is None else f"has {found} bytes"
            raise WeightError(
                f"{path}: {came}, config.json recorded {facts['bytes']}; the copy was interrupted, "
                f"or the files belong to two models: copy the folder again"
            )
