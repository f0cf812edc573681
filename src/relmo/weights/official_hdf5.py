"""The official layout, as bilm-tf writes and AllenNLP reads it: options.json + weights.hdf5.

The numeric rules between the file and the module, each both ways, are all in this file:

    gates      columns i, j, f, o of W_0 and B    <->  rows i, f, j, o (j is the candidate)
    W_0        (P + P, 4H), input above recurrent <->  two weights (4H, P)
    matrices   x @ W                              <->  x @ W.T
    filters    (1, width, E, n)                   <->  (n, E, width)
    characters (261, E)                           <->  (262, E) with a zero row for padding
    bias       without the forget gate's 1.0 on both sides: +1 then -1 would change most values
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from relmo.config import CharCnnConfig, ElmoConfig, WordTableConfig
from relmo.errors import ConfigError, RelmoError, WeightError
from relmo.files import make_folder, read_json, replacing, write_json
from relmo.text.lexicon import Lexicon
from relmo.weights.official_options import TOKENIZER, to_config, to_options
from relmo.weights.tensors import (
    ModelFiles,
    Storage,
    check_finite,
    check_names,
    check_shape,
    expected_shapes,
)

if TYPE_CHECKING:
    import h5py  # at run time only where a file is opened: it takes a fifth of relmo's import

HINT = "is options.json from the same model?"
GATES = (0, 2, 1, 3)
"""Where gate k of one order stands in the other."""


class OfficialHdf5:
    """Reads and writes options.json + weights.hdf5."""

    name = "hdf5"
    wanted = "options.json and weights.hdf5 (or one *options.json and one *weights.hdf5)"

    def detect(self, folder: Path) -> bool:
        """Whether both files are there."""
        return find_files(folder) is not None

    def read(self, folder: Path) -> ModelFiles:
        """Read and check settings and weights."""
        found = find_files(folder)
        if found is None:
            raise WeightError(f"{folder}: needs {self.wanted}")
        return read_files(*found)

    def lost(self, model: ModelFiles) -> list[str]:
        """Name what an official folder has no place for."""
        config, lost = model.config, []
        if model.lm_head is not None:
            lost.append("the official layout holds no softmax: the copy embeds, but cannot score")
        if config.has_start_state:
            lost.append("the official layout holds no start state: the copy begins from zero")
        if config.tokenizer != TOKENIZER:
            lost.append(
                f"the official layout does not say that the tokenizer is {config.tokenizer}"
            )
        if config.licence or config.training:
            lost.append("the official layout holds no licence and no training record")
        return lost

    def write(
        self,
        folder: Path,
        model: ModelFiles,
        shard_bytes: int | None = None,
        storage: Storage = "float32",
    ) -> None:
        """Write options.json, weights.hdf5 and, for a word table, vocab.txt."""
        if shard_bytes is not None:
            raise ConfigError("only the native format has shards; leave their size out")
        if storage != "float32":
            raise ConfigError(f"the official format holds float32, not {storage}; leave it out")
        options = to_options(model.config)  # refuses what the format cannot hold, first of all
        make_folder(folder)
        import h5py

        with replacing(folder / "weights.hdf5") as temporary, h5py.File(temporary, "w") as file:
            for dataset in datasets_of(model.config):
                file[dataset.name] = dataset.to_file([model.tensors[n] for n in dataset.tensors])
        if isinstance(model.config.tokens, WordTableConfig) and model.lexicon is not None:
            with replacing(folder / "vocab.txt") as temporary:
                model.lexicon.write(temporary)
        write_json(folder / "options.json", options)


def find_files(folder: Path) -> tuple[Path, Path] | None:
    """Paths of options and weights, under their plain or their published names."""
    found = []
    for plain in ("options.json", "weights.hdf5"):
        others = sorted(folder.glob(f"*{plain}"))
        if (folder / plain).is_file():
            found.append(folder / plain)
        elif len(others) == 1:
            found.append(others[0])
        else:
            return None
    return found[0], found[1]


def read_files(options_path: Path, weights_path: Path) -> ModelFiles:
    """Read a model from its two files, wherever they lie."""
    options = read_json(options_path)
    try:
        return _read_checked(options, options_path, weights_path)
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        if isinstance(error, RelmoError):
            raise
        raise WeightError(
            f"{weights_path}: is damaged or no ELMo ({type(error).__name__}: {error}); copy or "
            f"download it again"
        ) from error


def _read_checked(options: dict[str, Any], options_path: Path, weights_path: Path) -> ModelFiles:
    with _opened(weights_path) as file:
        names = {name for name, _ in _datasets(file)}
        rows = file["embedding"].shape[0] if "embedding" in names else None
        config = to_config(
            options,
            options_path,
            num_words=rows,
            has_cell_projection=any(name.endswith("/W_P_0") for name in names)
            or _widths_differ(options),
            has_cnn_projection=any(name.startswith("CNN_proj/") for name in names)
            or not _filters_fill_width(options),
        )
        table = datasets_of(config)
        check_names(names, {dataset.name for dataset in table}, weights_path, HINT)
        tensors: dict[str, Tensor] = {}
        shapes = expected_shapes(config)
        for dataset in table:
            wanted = dataset.file_shape([tuple(shapes[name]) for name in dataset.tensors])
            values = _read(file, dataset.name, wanted, weights_path)
            tensors.update(zip(dataset.tensors, dataset.from_file(values), strict=True))
    lexicon = None if rows is None else _read_lexicon(weights_path.parent, rows)
    return ModelFiles(config, tensors, lexicon)


@dataclass(frozen=True, slots=True)
class Dataset:
    """One dataset of the file, the tensors of the module that it holds, and the way both ways."""

    name: str
    tensors: tuple[str, ...]
    from_file: Callable[[Tensor], list[Tensor]]
    to_file: Callable[[list[Tensor]], Tensor]
    file_shape: Callable[[list[tuple[int, ...]]], tuple[int, ...]]


def datasets_of(config: ElmoConfig) -> list[Dataset]:
    """All datasets of a model of these settings."""
    if isinstance(config.tokens, CharCnnConfig):
        table = list(_cnn_datasets(config.tokens))
    else:
        table = [_as_it_is("embedding", "token_layer.embedding.weight")]
    for r, direction in enumerate(("forward", "backward")):
        for layer in range(config.lstm.num_layers):
            cell = f"RNN_{r}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            module = f"{direction}_lstm.layers.{layer}"
            table.append(_cell_matrix(f"{cell}/W_0", module))
            table.append(_cell_bias(f"{cell}/B", f"{module}.bias"))
            if config.lstm.has_projection:
                table.append(_transposed(f"{cell}/W_P_0", f"{module}.projection"))
    return table


def _cnn_datasets(config: CharCnnConfig) -> Iterator[Dataset]:
    cnn = "token_layer"
    yield _characters("char_embed", f"{cnn}.embedding.weight")
    for i in range(len(config.filters)):
        yield _filter(f"CNN/W_cnn_{i}", f"{cnn}.convs.{i}.weight")
        yield _as_it_is(f"CNN/b_cnn_{i}", f"{cnn}.convs.{i}.bias")
    for i in range(config.num_highways):
        for part in ("transform", "carry"):
            yield _transposed(f"CNN_high_{i}/W_{part}", f"{cnn}.highways.{i}.{part}.weight")
            yield _as_it_is(f"CNN_high_{i}/b_{part}", f"{cnn}.highways.{i}.{part}.bias")
    if config.has_projection:
        yield _transposed("CNN_proj/W_proj", f"{cnn}.projection.weight")
        yield _as_it_is("CNN_proj/b_proj", f"{cnn}.projection.bias")


def _as_it_is(name: str, tensor: str) -> Dataset:
    return Dataset(name, (tensor,), lambda x: [x], lambda xs: xs[0], lambda shapes: shapes[0])


def _transposed(name: str, tensor: str) -> Dataset:
    return Dataset(
        name,
        (tensor,),
        lambda x: [x.T.contiguous()],
        lambda xs: xs[0].T.contiguous(),
        lambda shapes: shapes[0][::-1],
    )


def _characters(name: str, tensor: str) -> Dataset:
    return Dataset(
        name,
        (tensor,),
        lambda x: [torch.cat([x.new_zeros(1, x.shape[1]), x])],  # (261, E) -> (262, E)
        lambda xs: xs[0][1:],
        lambda shapes: (shapes[0][0] - 1, shapes[0][1]),
    )


def _filter(name: str, tensor: str) -> Dataset:
    return Dataset(
        name,
        (tensor,),
        lambda x: [x[0].permute(2, 1, 0).contiguous()],  # (1, width, E, n) -> (n, E, width)
        lambda xs: xs[0].permute(2, 1, 0).unsqueeze(0).contiguous(),
        lambda shapes: (1, *shapes[0][::-1]),
    )


def _cell_bias(name: str, tensor: str) -> Dataset:
    return Dataset(
        name,
        (tensor,),
        lambda x: [exchange_gates(x)],
        lambda xs: exchange_gates(xs[0]),
        lambda shapes: shapes[0],
    )


def _cell_matrix(name: str, module: str) -> Dataset:
    def from_file(w: Tensor) -> list[Tensor]:  # (2P, 4H) -> two (4H, P)
        return [exchange_gates(half.T) for half in w.chunk(2)]

    def to_file(weights: list[Tensor]) -> Tensor:  # two (4H, P) -> (2P, 4H)
        return torch.cat([exchange_gates(w).T for w in weights]).contiguous()

    return Dataset(
        name,
        (f"{module}.input_weight", f"{module}.recurrent_weight"),
        from_file,
        to_file,
        lambda shapes: (shapes[0][1] + shapes[1][1], shapes[0][0]),
    )


def exchange_gates(x: Tensor) -> Tensor:
    """Rows i, j, f, o <-> i, f, j, o of a weight (4H, P) or a bias (4H,), its own inverse."""
    exchanged = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    for to, gate in zip(exchanged.chunk(4), GATES, strict=True):
        to.copy_(x.chunk(4)[gate])
    return exchanged


def _read(file: h5py.File, name: str, wanted: tuple[int, ...], path: Path) -> Tensor:
    dataset = file[name]
    check_shape(path, name, dataset.shape, wanted, HINT)
    if dataset.dtype.kind != "f":
        raise WeightError(f"{path}: {name!r} holds {dataset.dtype}, float32 is needed")
    try:
        values = dataset[...]
    except OSError as error:
        raise WeightError(f"{path}: {name!r} cannot be read ({error}); copy it again") from error
    tensor = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
    check_finite(path, name, tensor)
    return tensor


def _opened(path: Path) -> h5py.File:
    if not path.is_file():
        raise WeightError(f"{path}: no such file; give the path of the weights.hdf5")
    import h5py

    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise WeightError(
            f"{path}: is not a complete HDF5 file ({error}); copy or download it again"
        ) from error


def _datasets(file: h5py.File) -> list[tuple[str, h5py.Dataset]]:
    import h5py

    found: list[tuple[str, h5py.Dataset]] = []
    file.visititems(
        lambda name, item: found.append((name, item)) if isinstance(item, h5py.Dataset) else None
    )
    return found


def _widths_differ(options: dict[str, Any]) -> bool:
    lstm = options.get("lstm")
    return isinstance(lstm, dict) and lstm.get("dim") != lstm.get("projection_dim")


def _filters_fill_width(options: dict[str, Any]) -> bool:
    cnn, lstm = options.get("char_cnn"), options.get("lstm")
    if not isinstance(cnn, dict) or not isinstance(lstm, dict):
        return False
    return bool(sum(count for _, count in cnn.get("filters", [])) == lstm.get("projection_dim"))


def _read_lexicon(folder: Path, rows: int) -> Lexicon:
    found = sorted(folder.glob("*vocab*.txt"))
    if len(found) != 1:
        raise WeightError(
            f"{folder}: a word table needs its word list, one *vocab*.txt with {rows} lines; "
            f"found {len(found)}"
        )
    return Lexicon.read(found[0])
