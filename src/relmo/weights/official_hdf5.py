"""The official layout, as bilm-tf writes and AllenNLP reads it: options.json + weights.hdf5.

All numeric rules between the file and the module are here, each in both directions (see `Rule`):

    gates      columns i, j, f, o of W_0 and B    <->  rows i, f, j, o (j is the candidate)
    W_0        (P + P, 4H), input above recurrent <->  two weights (4H, P)
    matrices   x @ W                              <->  x @ W.T
    filters    (1, width, E, n)                   <->  (n, E, width)
    characters (261, E)                           <->  (262, E) with a zero row for padding
    bias       without the forget gate's 1.0 on both sides: +1 then -1 would change most values
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from relmo.config import (
    CharCnnConfig,
    ElmoConfig,
    LstmConfig,
    TokenizerName,
    WordTableConfig,
    shown,
)
from relmo.errors import ConfigError, RelmoError, WeightError
from relmo.files import locked_folder, read_json, replacing, write_json
from relmo.text.lexicon import Lexicon
from relmo.weights.checksums import read_sums, verify_listed, write_sums
from relmo.weights.tensors import (
    ModelFiles,
    Storage,
    check_memory,
    check_names,
    check_shape,
    check_values,
    expected_shapes,
)

if TYPE_CHECKING:
    import h5py  # imported only when a file is opened: it takes a fifth of relmo's import time

HINT = "is options.json from the same model?"
GATES = (0, 2, 1, 3)
"""The position of gate k of one order in the other."""
TOKENIZER: TokenizerName = "treebank"
"""Close to how the training text of the official models was tokenized."""
RAW_CHARACTERS = 261
"""Rows of char_embed; n_characters is 261 in training files and 262 (with padding) elsewhere."""
LSTM_KEYS = ("dim", "projection_dim", "n_layers", "cell_clip", "proj_clip", "use_skip_connections")
CNN_KEYS = (
    "activation",
    "filters",
    "n_highway",
    "embedding",
    "n_characters",
    "max_characters_per_token",
)

FILTER_PLACES = {2: 0, 1: 1, 32000: 1, 3: 2}
"""HDF5's numbers of shuffle, gzip, lzf and fletcher32, and their order in a file, where each place
is taken once: so a chunk is compressed last, and can be checked before HDF5 expands it. Others may
be plugins of this machine."""
MAX_EXPANSION = 16
"""Weights barely shrink when they are compressed; a file that declares more is not a model."""
ROOM = 64
"""Bytes for checksums that a chunk may contain beside its values."""

Value = TypeVar("Value")


class OfficialHdf5:
    """Reads and writes options.json + weights.hdf5."""

    name = "hdf5"
    needs = "options.json and weights.hdf5 (or one *options.json and one *weights.hdf5)"

    def detect(self, folder: Path) -> bool:
        """Whether the folder contains both files."""
        return find_files(folder) is not None

    def read(self, folder: Path, *, verify: bool = True) -> ModelFiles:
        """Read and check settings and weights."""
        found = find_files(folder)
        if found is None:
            raise WeightError(f"{folder}: expected {self.needs}")
        return read_files(*found, verify=verify)

    def lost(self, model: ModelFiles) -> list[str]:
        """What an official folder has no place for."""
        config, lost = model.config, []
        if model.lm_head is not None:
            lost.append("the official format has no softmax: the copy embeds, but cannot score")
        if config.has_start_state:
            lost.append("the official format has no start state: the copy starts from zero")
        if config.tokenizer != TOKENIZER:
            lost.append(f"the official format does not record the tokenizer ({config.tokenizer})")
        if config.licence or config.training:
            lost.append("the official format has no licence and no training record")
        return lost

    def write(
        self, folder: Path, model: ModelFiles, shard_bytes: int | None, storage: Storage
    ) -> None:
        """Write options.json, weights.hdf5, for a word table vocab.txt, and their checksums."""
        if shard_bytes is not None:
            raise ConfigError("only the native format supports shards; omit the shard size")
        if storage != "float32":
            raise ConfigError(f"the official format stores float32, not {storage}; omit storage")
        options = to_options(model.config)  # first, as it refuses what the format cannot store
        with locked_folder(folder):
            _write(folder, model, options)


def _write(folder: Path, model: ModelFiles, options: Mapping[str, Any]) -> None:
    read_sums(folder)  # a file that cannot be extended is an error before weights are replaced
    import h5py

    written = ["options.json", "weights.hdf5"]
    with replacing(folder / "weights.hdf5") as temporary, h5py.File(temporary, "w") as file:
        for dataset in datasets_of(model.config):
            tensors = [model.tensors[name] for name in dataset.tensors]
            file[dataset.name] = dataset.rule.to_file(tensors)
    if isinstance(model.config.tokens, WordTableConfig) and model.lexicon is not None:
        with replacing(folder / "vocab.txt") as temporary:
            model.lexicon.write(temporary)
        written.append("vocab.txt")
    write_json(folder / "options.json", options)
    write_sums(folder, written)


def find_files(folder: Path) -> tuple[Path, Path] | None:
    """The paths of options and weights, under their plain or their published names."""
    found = []
    for plain in ("options.json", "weights.hdf5"):
        is_plain = (folder / plain).is_file()
        candidates = [folder / plain] if is_plain else list(folder.glob(f"*{plain}"))
        if len(candidates) != 1:
            return None
        found += candidates
    return found[0], found[1]


def read_files(options_path: Path, weights_path: Path, *, verify: bool = True) -> ModelFiles:
    """Read a model from its two files, wherever they are.

    `verify` compares them with the checksums that SHA256SUMS lists, where there is such a file.
    """
    try:
        if verify:
            verify_listed([options_path, weights_path])
        options = read_json(options_path)
        return _read_checked(options, options_path, weights_path, verify)
    except RelmoError:
        raise
    except MemoryError as error:
        raise WeightError(f"{weights_path}: its weights do not fit into memory") from error
    except (OSError, RuntimeError, LookupError, ValueError, TypeError, AttributeError) as error:
        raise WeightError(
            f"{weights_path}: damaged, or not an ELMo ({type(error).__name__}: {error}); copy or "
            f"download it again"
        ) from error


def _read_checked(
    options: dict[str, Any], options_path: Path, weights_path: Path, verify: bool
) -> ModelFiles:
    with _opened(weights_path) as file:
        shapes = stored_shapes(file, weights_path)
        num_words = next(iter(shapes["embedding"]), 0) if "embedding" in shapes else None
        config = to_config(options, options_path, set(shapes), num_words)
        table = datasets_of(config)
        check_names(set(shapes), {dataset.name for dataset in table}, weights_path, HINT)
        modules = expected_shapes(config)
        for dataset in table:  # all of them before any is allocated
            wanted = dataset.rule.shape([tuple(modules[name]) for name in dataset.tensors])
            check_shape(weights_path, dataset.name, shapes[dataset.name], wanted, HINT)
        check_memory(weights_path, shapes.values())
        tensors: dict[str, Tensor] = {}
        for dataset in table:
            values = _read(file, dataset.name, weights_path)
            tensors.update(zip(dataset.tensors, dataset.rule.from_file(values), strict=True))
    if num_words is None:
        return ModelFiles(config, tensors)
    return ModelFiles(config, tensors, _read_lexicon(weights_path.parent, num_words, verify))


# --- options.json


def to_config(
    options: Mapping[str, Any], path: Path, names: set[str], num_words: int | None
) -> ElmoConfig:
    """The settings of an official model.

    Args:
        options: The content of options.json.
        path: The path of options.json, for messages.
        names: The datasets of weights.hdf5. bilm-tf omits a projection between equal widths,
            AllenNLP does not: only the weights tell.
        num_words: Rows of the word table, or None for a character model.
    """
    lstm = _get(options, "lstm", dict, path)
    try:
        width, cell_width = _get(lstm, "projection_dim", int, path), _get(lstm, "dim", int, path)
        return ElmoConfig(
            tokens=_cnn_config(options, width, names, path)
            if num_words is None
            else WordTableConfig(width=width, num_words=num_words),
            lstm=LstmConfig(
                num_layers=lstm.get("n_layers", 1),
                cell_width=cell_width,
                output_width=width,
                has_projection=cell_width != width or any(n.endswith("/W_P_0") for n in names),
                cell_clip=lstm.get("cell_clip") or None,  # 0 means no clip, as in AllenNLP
                output_clip=lstm.get("proj_clip") or None,
                has_skips=lstm.get("use_skip_connections") or False,
            ),
            tokenizer=TOKENIZER,
            official=_unused(options),
        )
    except (ConfigError, TypeError, ValueError) as error:
        if isinstance(error, WeightError):
            raise
        raise WeightError(f"{path}: {error}; is it the options.json of an ELMo?") from error


def _cnn_config(
    options: Mapping[str, Any], width: int, names: set[str], path: Path
) -> CharCnnConfig:
    cnn = _get(options, "char_cnn", dict, path)
    embedding = _get(cnn, "embedding", dict, path)
    count = cnn.get("n_characters", RAW_CHARACTERS + 1)
    if count not in (RAW_CHARACTERS, RAW_CHARACTERS + 1):
        raise WeightError(
            f"{path}: n_characters must be 261, or 262 with padding, in the byte scheme; "
            f"got {shown(count)}"
        )
    pairs = _get(cnn, "filters", list, path)
    if not all(isinstance(pair, list) and [*map(type, pair)] == [int, int] for pair in pairs):
        raise WeightError(f"{path}: 'filters' must be a list of [width, count], got {shown(pairs)}")
    filters = tuple((size, count) for size, count in pairs)
    return CharCnnConfig(
        width=width,
        max_characters=cnn.get("max_characters_per_token", 50),
        character_width=_get(embedding, "dim", int, path),
        filters=filters,
        activation=cnn.get("activation", "relu"),
        num_highways=cnn.get("n_highway") or 0,
        has_projection=sum(n for _, n in filters) != width
        or any(name.startswith("CNN_proj/") for name in names),
    )


def to_options(config: ElmoConfig) -> dict[str, Any]:
    """The content of options.json for these settings, with unused keys of an earlier one."""
    official = dict(config.official)
    lstm = {
        "use_skip_connections": config.lstm.has_skips,
        "projection_dim": config.lstm.output_width,
        "cell_clip": config.lstm.cell_clip,
        "proj_clip": config.lstm.output_clip,
        "dim": config.lstm.cell_width,
        "n_layers": config.lstm.num_layers,
    }
    options = {**official, "lstm": {**_section(official, "lstm"), **lstm}}
    if isinstance(config.tokens, WordTableConfig):
        return options
    if config.tokens.scheme != "bytes":
        raise WeightError(
            "the official format spells words in bytes; store a code-point model in the native "
            "format"
        )
    cnn = {
        "activation": config.tokens.activation,
        "filters": [list(pair) for pair in config.tokens.filters],
        "n_highway": config.tokens.num_highways,
        "embedding": {"dim": config.tokens.character_width},
        "n_characters": RAW_CHARACTERS + 1,
        "max_characters_per_token": config.tokens.max_characters,
    }
    return {**options, "char_cnn": {**_section(official, "char_cnn"), **cnn}}


def _section(official: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A section of the unused keys, which may be empty."""
    section = official.get(name, {})
    if not isinstance(section, Mapping):
        raise WeightError(
            f"config.json: 'official.{name}' must be an object, got {shown(section)}; remove it"
        )
    return section


def _unused(options: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that shape nothing here; files of training runs have many."""
    rest = {key: value for key, value in options.items() if key not in ("lstm", "char_cnn")}
    for section, used in (("lstm", LSTM_KEYS), ("char_cnn", CNN_KEYS)):
        values = options.get(section, {})
        unused = {key: value for key, value in values.items() if key not in used}
        if unused:
            rest[section] = unused
    return rest


def _get(values: Mapping[str, Any], key: str, kind: type[Value], path: Path) -> Value:
    if key not in values:
        raise WeightError(f"{path}: lacks {key!r}; is it the options.json of an ELMo?")
    value = values[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        wanted = {int: "an integer", list: "a list"}.get(kind, "an object")
        raise WeightError(f"{path}: {key!r} must be {wanted}, got {shown(value)}")
    return value


# --- weights.hdf5


@dataclass(frozen=True, slots=True)
class Rule:
    """How the values of a dataset relate to the tensors that it contains."""

    from_file: Callable[[Tensor], list[Tensor]]
    to_file: Callable[[list[Tensor]], Tensor]
    shape: Callable[[list[tuple[int, ...]]], tuple[int, ...]]
    """Of the dataset, from the shapes of the tensors."""


def exchange_gates(x: Tensor) -> Tensor:
    """Rows i, j, f, o <-> i, f, j, o of a weight (4H, P) or a bias (4H,); its own inverse."""
    exchanged = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    for to, gate in zip(exchanged.chunk(4), GATES, strict=True):
        to.copy_(x.chunk(4)[gate])
    return exchanged


SAME = Rule(lambda x: [x], lambda xs: xs[0], lambda sizes: sizes[0])
TRANSPOSED = Rule(
    lambda x: [x.T.contiguous()], lambda xs: xs[0].T.contiguous(), lambda sizes: sizes[0][::-1]
)
CHARACTERS = Rule(  # (261, E) <-> (262, E)
    lambda x: [torch.cat([x.new_zeros(1, x.shape[1]), x])],
    lambda xs: xs[0][1:],
    lambda sizes: (sizes[0][0] - 1, *sizes[0][1:]),
)
FILTERS = Rule(  # (1, width, E, n) <-> (n, E, width)
    lambda x: [x[0].permute(2, 1, 0).contiguous()],
    lambda xs: xs[0].permute(2, 1, 0).unsqueeze(0).contiguous(),
    lambda sizes: (1, *sizes[0][::-1]),
)
CELL_BIAS = Rule(
    lambda x: [exchange_gates(x)], lambda xs: exchange_gates(xs[0]), lambda sizes: sizes[0]
)
CELL_MATRIX = Rule(  # (2P, 4H) <-> two (4H, P)
    lambda x: [exchange_gates(half.T) for half in x.chunk(2)],
    lambda xs: torch.cat([exchange_gates(x).T for x in xs]).contiguous(),
    lambda sizes: (sum(columns for _, columns in sizes), sizes[0][0]),
)


@dataclass(frozen=True, slots=True)
class OfficialDataset:
    """One dataset of weights.hdf5 and the tensors of the module that it contains."""

    name: str
    tensors: tuple[str, ...]
    rule: Rule = SAME


def datasets_of(config: ElmoConfig) -> list[OfficialDataset]:
    """All datasets of a model with these settings."""
    if isinstance(config.tokens, CharCnnConfig):
        table = list(_cnn_datasets(config.tokens))
    else:
        table = [OfficialDataset("embedding", ("token_layer.embedding.weight",))]
    for r, direction in enumerate(("forward", "backward")):
        for layer in range(config.lstm.num_layers):
            cell = f"RNN_{r}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            module = f"{direction}_lstm.layers.{layer}"
            weights = f"{module}.input_weight", f"{module}.recurrent_weight"
            table.append(OfficialDataset(f"{cell}/W_0", weights, CELL_MATRIX))
            table.append(OfficialDataset(f"{cell}/B", (f"{module}.bias",), CELL_BIAS))
            if config.lstm.has_projection:
                projection = (f"{module}.projection",)
                table.append(OfficialDataset(f"{cell}/W_P_0", projection, TRANSPOSED))
    return table


def _cnn_datasets(config: CharCnnConfig) -> Iterator[OfficialDataset]:
    def dataset(name: str, tensor: str, rule: Rule = SAME) -> OfficialDataset:
        return OfficialDataset(name, (f"token_layer.{tensor}",), rule)

    yield dataset("char_embed", "embedding.weight", CHARACTERS)
    for i in range(len(config.filters)):
        yield dataset(f"CNN/W_cnn_{i}", f"convs.{i}.weight", FILTERS)
        yield dataset(f"CNN/b_cnn_{i}", f"convs.{i}.bias")
    for i in range(config.num_highways):
        for part in ("transform", "carry"):
            yield dataset(f"CNN_high_{i}/W_{part}", f"highways.{i}.{part}.weight", TRANSPOSED)
            yield dataset(f"CNN_high_{i}/b_{part}", f"highways.{i}.{part}.bias")
    if config.has_projection:
        yield dataset("CNN_proj/W_proj", "projection.weight", TRANSPOSED)
        yield dataset("CNN_proj/b_proj", "projection.bias")


def stored_shapes(file: h5py.File, path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each dataset; WeightError unless all of their values are in this file."""
    import h5py

    found: dict[str, h5py.Dataset] = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            _check_dataset(name, item, path)
            found[name] = item

    file.visititems(visit)  # follows neither soft nor external links
    stored, declared = path.stat().st_size, sum(each.nbytes for each in found.values())
    chunk = max((_chunk_bytes(each) for each in found.values()), default=0)
    if max(declared, chunk) > MAX_EXPANSION * stored:
        raise WeightError(
            f"{path}: declares {max(declared, chunk):,} bytes of weights, but the file has "
            f"{stored:,}; copy or download it again"
        )
    return {name: each.shape for name, each in found.items()}


def _check_dataset(name: str, dataset: h5py.Dataset, path: Path) -> None:
    """Raise WeightError unless a dataset has numbers, all of them in this file.

    A dataset may also be kept in other files, or put together from them: then the content of any
    file of this machine could become weights. Its values may never have been written, or expand
    without end when they are decompressed.
    """
    import h5py

    created = dataset.id.get_create_plist()
    if created.get_layout() == h5py.h5d.VIRTUAL or created.get_external_count():
        raise WeightError(
            f"{path}: {name!r} takes its values from another file, which is never read; copy them "
            f"into this one"
        )
    if dataset.dtype.kind != "f":
        raise WeightError(f"{path}: {name!r} must be float32, got {dataset.dtype}")
    if dataset.shape is None or (dataset.nbytes and not dataset.id.get_storage_size()):
        raise WeightError(f"{path}: {name!r} has no values; copy or download the file again")
    filters = [created.get_filter(i)[0] for i in range(created.get_nfilters())]
    places = [FILTER_PLACES.get(each) for each in filters]
    if None in places or places != sorted({*places}):  # type: ignore[type-var]
        raise WeightError(
            f"{path}: {name!r} is compressed in a way that relmo does not read; "
            f"store it without compression or with gzip (h5repack -f NONE)"
        )
    if h5py.h5z.FILTER_DEFLATE in filters:
        _check_gzip(name, dataset, path)


def _check_gzip(name: str, dataset: h5py.Dataset, path: Path) -> None:
    """Raise WeightError if a chunk is longer than declared: HDF5 would decompress all of it."""
    expected = _chunk_bytes(dataset) + ROOM
    for i in range(dataset.id.get_num_chunks()):
        _, content = dataset.id.read_direct_chunk(dataset.id.get_chunk_info(i).chunk_offset)
        with suppress(zlib.error):  # not compressed, or damaged, as reading will tell
            if len(zlib.decompressobj().decompress(content, expected + 1)) > expected:
                raise WeightError(f"{path}: {name!r} has a chunk that is too long; copy it again")


def _chunk_bytes(dataset: h5py.Dataset) -> int:
    """Bytes of memory that one chunk takes; 0 for a dataset without chunks."""
    return math.prod(dataset.chunks) * dataset.dtype.itemsize if dataset.chunks else 0


def _read(file: h5py.File, name: str, path: Path) -> Tensor:
    try:
        values = file[name][...]
    except OSError as error:
        raise WeightError(f"{path}: {name!r} cannot be read ({error}); copy it again") from error
    tensor = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
    check_values(path, name, tensor)
    return tensor


def _opened(path: Path) -> h5py.File:
    if not path.is_file():
        raise WeightError(f"{path}: no such file; give the path of weights.hdf5")
    import h5py

    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise WeightError(
            f"{path}: not a complete HDF5 file ({error}); copy or download it again"
        ) from error


def _read_lexicon(folder: Path, num_words: int, verify: bool) -> Lexicon:
    found = sorted(folder.glob("*vocab*.txt"))
    if len(found) != 1:
        raise WeightError(
            f"{folder}: a word table needs its vocabulary, one *vocab*.txt with {num_words} lines; "
            f"found {len(found)} such files"
        )
    if verify:
        verify_listed(found)
    return Lexicon.read(found[0], num_words)
