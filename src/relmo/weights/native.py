"""relmo's own layout: config.json + model.safetensors (or shards and their index) + vocab.txt.

Tensors have the names of the module tree, except start_state.{forward,backward}.{h,c}. Biases are
stored as in the official file, without the forget gate's 1.0: only so is a round trip
bit-identical. config.json records size and sha256 of the other files, and a checksum of itself
(the key `seal`). A new model is written completely into a hidden subfolder, which one rename makes
valid; its files then move up, config.json last. A crash before the rename leaves the old model; one
after it leaves files in both places: they are read where they are, and the next writer moves them.
Reading never writes.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

from torch import Tensor

from relmo.config import ElmoConfig, WordTableConfig, shown
from relmo.errors import ConfigError, WeightError
from relmo.files import (
    SEAL,
    checksum,
    explain,
    is_plain_name,
    locked_folder,
    read_json,
    replacing_folder,
    sha256,
    sync_folder,
    write_json,
)
from relmo.text.lexicon import Lexicon
from relmo.weights.checksums import ADVICE
from relmo.weights.checksums import verify as verify_files
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
    check_memory,
    check_names,
    expected_shapes,
)

VOCAB = "vocab.txt"
MAX_WORDS = 4_000_000
"""Of a vocab.txt without a softmax, whose rows bound it otherwise."""
CARD = "README.md"
COMMITTED = ".relmo-committed"
"""The subfolder of a model that is complete but not yet moved to its place."""
CONFIG = "config.json"
MODEL_FILE = re.compile(
    r"(model|lm_head)(-\d{5}-of-\d{5})?\.safetensors|model\.safetensors\.index\.json|vocab\.txt"
)
"""Files that a model consists of, besides config.json and its card."""
HINT = "is config.json from the same model? Run 'relmo info FOLDER' to verify its checksums"


class Native:
    """Reads and writes relmo's own layout."""

    name = "native"
    needs = "config.json and model.safetensors (or model.safetensors.index.json)"

    def detect(self, folder: Path) -> bool:
        """Whether the folder contains config.json and weights."""
        return place(folder, CONFIG).is_file() and (
            place(folder, SINGLE).is_file() or place(folder, INDEX).is_file()
        )

    def read(self, folder: Path, *, verify: bool = True) -> ModelFiles:
        """Read and check settings, weights and vocabulary."""
        record = read_config(folder, verify=verify)
        check_sizes(record)
        softmax = head_files(record.files, record.path(CONFIG))
        if verify:
            record.verify(name for name in record.files if name not in softmax)
        tensors = _read_weights(record)
        has_words = VOCAB in record.files if record.files else record.path(VOCAB).is_file()
        if not has_words:
            return ModelFiles(record.config, tensors)
        tokens, width = record.config.tokens, record.config.lstm.output_width
        most = sum(record.files[name]["bytes"] for name in softmax) // width  # a row takes P bytes
        if isinstance(tokens, WordTableConfig):
            most = tokens.num_words
        lexicon = Lexicon.read(record.path(VOCAB), most or MAX_WORDS)
        head = partial(_read_head, record, softmax, len(lexicon), verify) if softmax else None
        return ModelFiles(record.config, tensors, lexicon, head)

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
            write_config(stage, model.config, storage, files)


def _read_weights(record: NativeRecord) -> dict[str, Tensor]:
    """All tensors by module name; what config.json declares is compared with the files' headers."""
    folder, storage = record.folder, record.storage
    shapes = expected_shapes(record.config)
    module_name = {START_NAMES.get(name, name): name for name in shapes}
    is_single = SINGLE in record.files if record.files else record.path(SINGLE).is_file()
    where = tensor_files(record.path, is_single)
    scales = {name + SCALE for name in module_name} if storage == "int8" else set()
    check_names(where.keys() - scales, set(module_name), folder, HINT)
    check_memory(folder, shapes.values())
    tensors: dict[str, Tensor] = {}
    for file in sorted(set(where.values())):
        if not record.path(file).is_file():
            raise WeightError(f"{folder / INDEX}: names {file!r}, which is missing; copy it too")
        here = [name for name, home in where.items() if home == file and name not in scales]
        wanted = {name: shapes[module_name[name]] for name in here}
        found = read_tensors(record.path(file), wanted, storage, HINT)
        tensors.update((module_name[name], tensor) for name, tensor in found.items())
    return tensors


def _read_head(
    record: NativeRecord, names: list[str], num_words: int, verify: bool
) -> dict[str, Tensor]:
    """The softmax, when it is first needed."""
    if verify:
        record.verify(names)
    paths = [record.path(name) for name in names]
    return read_head(paths, record.storage, (num_words, record.config.lstm.output_width))


# ── writing and reading a folder while it is replaced ────────────────────────────────────────


@contextmanager
def replacing_model(folder: Path) -> Iterator[Path]:
    """Yield a subfolder for all files of a model; on exit it becomes the model.

    Of two writers at once the second one is refused (`InUse`).
    """
    with locked_folder(folder):
        finish_move(folder)
        with replacing_folder(folder / COMMITTED) as stage:
            yield stage
        finish_move(folder)  # from the rename on, the new model is the model


def place(folder: Path, name: str) -> Path:
    """Where a file of the model is: in its place, or still in the subfolder of a stopped move."""
    stage = folder / COMMITTED
    is_moving = not stage.is_symlink() and (stage / CONFIG).is_file()
    return stage / name if is_moving and (stage / name).is_file() else folder / name


def finish_move(folder: Path) -> None:
    """Move a completely written model to its place, also after a crash during the move.

    Only a writer calls it. The old model's own files are deleted; other files in the folder are
    not ours and stay.
    """
    stage = folder / COMMITTED
    if stage.is_symlink():
        raise WeightError(f"{stage}: is a link, which relmo never makes; delete it")
    if not stage.is_dir():
        return
    with explain(folder):
        if (stage / CONFIG).is_file():
            _move(folder, stage)
        shutil.rmtree(stage, ignore_errors=True)


def _move(folder: Path, stage: Path) -> None:
    """Move the files up, config.json last: until then they are read where they are."""
    new, old = _recorded(stage / CONFIG), set()
    with suppress(WeightError):  # no model of ours, or a damaged one: nothing to delete
        old = _recorded(folder / CONFIG)
    for path in stage.iterdir():
        if path.is_symlink():
            raise WeightError(f"{path}: is a link, which relmo never makes; delete {stage}")
    if (folder / CARD).exists():  # an edited one stays
        (stage / CARD).unlink(missing_ok=True)
    for name in [*sorted(new), CARD]:
        if (stage / name).is_file():
            (stage / name).replace(folder / name)
    for stale in old - new:
        if MODEL_FILE.fullmatch(stale):
            (folder / stale).unlink(missing_ok=True)
    (stage / CONFIG).replace(folder / CONFIG)
    sync_folder(folder)


def _recorded(path: Path) -> set[str]:
    """The names of the files of a model, by its config.json."""
    values = read_json(path)
    is_ours = values.get("format") == "relmo"
    return set(_check_files(values.get("files", {}), path)) if is_ours else set()


# ── config.json ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class NativeRecord:
    """The content of config.json."""

    folder: Path
    config: ElmoConfig
    storage: Storage
    files: dict[str, dict[str, Any]]
    """The other files: {name: {bytes, sha256}}."""
    is_sealed: bool | None
    """Whether the checksum of config.json itself matches; None if it has none."""

    def path(self, name: str) -> Path:
        """Where a file of the model is."""
        return place(self.folder, name)

    def verify(self, names: Iterable[str]) -> None:
        """Raise WeightError unless these files have their recorded checksums."""
        verify_files({self.path(name): self.files[name]["sha256"] for name in names})


def read_config(folder: Path, *, verify: bool = True) -> NativeRecord:
    """Read and check config.json; `verify` also compares it with its own checksum."""
    path = place(folder, CONFIG)
    values = read_json(path)
    is_sealed = checksum(values) == values[SEAL] if SEAL in values else None
    values.pop(SEAL, None)
    storage, files = values.pop("storage", "float32"), values.pop("files", {})
    if storage not in get_args(Storage):
        raise WeightError(
            f"{path}: storage is {shown(storage)}, this relmo reads "
            f"{' and '.join(get_args(Storage))}; was it written by a newer release?"
        )
    try:
        config = ElmoConfig.from_dict(values)
    except ConfigError as error:
        raise WeightError(f"{path}: {error}") from error
    if verify and is_sealed is False:
        raise WeightError(
            f"{path}: damaged or changed: its checksum does not match; {ADVICE}. If you edited it "
            f"on purpose, remove its key {SEAL!r}"
        )
    return NativeRecord(folder, config, storage, _check_files(files, path), is_sealed)


def write_config(
    folder: Path, config: ElmoConfig, storage: Storage, files: Mapping[str, Mapping[str, Any]]
) -> None:
    """Write config.json with the checksums of the other files and of itself."""
    values = {**config.to_dict(), "storage": storage, "files": files}
    values = json.loads(json.dumps(values))  # what a reader will see: lists instead of tuples
    write_json(folder / CONFIG, {**values, SEAL: checksum(values)})


def _check_files(files: Any, path: Path) -> dict[str, dict[str, Any]]:  # noqa: ANN401 - any JSON
    """The record of the other files, checked."""
    for name, facts in files.items() if isinstance(files, dict) else [("", None)]:
        if not isinstance(facts, dict) or not isinstance(facts.get("bytes"), int):
            break
        if not re.fullmatch("[0-9a-f]{64}", str(facts.get("sha256"))):
            break
        if not is_plain_name(name):
            raise WeightError(f"{path}: {shown(name)} must be the plain name of a file beside it")
    else:
        return cast("dict[str, dict[str, Any]]", files)
    raise WeightError(f"{path}: 'files' must give bytes and sha256 of each file")


def check_sizes(record: NativeRecord) -> None:
    """Raise WeightError unless every file has its recorded size; cheap enough for every load."""
    for name, facts in record.files.items():
        path = record.path(name)
        found = path.stat().st_size if path.is_file() else None
        if found != facts["bytes"]:
            came = "is missing" if found is None else f"has {found} bytes"
            raise WeightError(
                f"{path}: {came}, config.json recorded {facts['bytes']}; the copy was interrupted, "
                f"or the files belong to two models: copy the folder again"
            )
