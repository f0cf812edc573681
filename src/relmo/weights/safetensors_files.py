"""Tensors in safetensors files: shards, 8-bit storage, and the softmax in shards of rows.

    model.safetensors                    or model-00001-of-0000N.safetensors and an index
    lm_head.safetensors                  weight (V, P), bias (V,)
    lm_head-00001-of-00003.safetensors   the same for the first rows, and so on

The softmax's weight is one tensor, often the model's largest, so it is split between rows;
config.json records its files, so it needs no index. With "int8" storage a matrix is stored as NAME
int8 and NAME.scale float32, one scale per output row; vectors (biases, states) stay float32. A
row's largest value becomes 127, so the error is at most half a step of that row.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from relmo.config import check_choice
from relmo.errors import OutputError, WeightError
from relmo.files import is_plain_name, open_regular, read_json, replacing, write_json
from relmo.kernels.cpu_products import to_int8
from relmo.weights.tensors import Storage, check_names, check_shape, check_values

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
HEAD_STEM = "lm_head"
HEAD_SINGLE = "lm_head.safetensors"
HEAD_SHARD = re.compile(r"lm_head-\d{5}-of-(\d{5})\.safetensors", re.ASCII)
HEAD_NAMES = ("weight", "bias")
HEAD_HINT = "is it from the same model? Copy the folder again"
SCALE = ".scale"
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
FIXED_BYTES = 64
"""Maximum size of a file's header, without the entries of its tensors."""
MAX_HEADER_BYTES = 8 * 2**20
"""Maximum size of a header that is read; that of 10,000 tensors takes one MiB."""
ENTRY_BYTES = 100
"""Maximum size of a tensor's entry in the header, without its name."""


# --- one file


def save_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write a file, completely or not at all."""
    with replacing(path) as temporary:
        write_tensors(temporary, tensors, {"format": "pt"})


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Write tensors of any device to a safetensors file."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(whole, path, metadata)
    except SafetensorError as error:  # how safetensors reports a full disk
        raise OSError(str(error)) from error
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)  # safetensors makes files for their owner alone


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor in one file, from its header alone."""
    with _opened(path) as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def tensor_bytes(path: Path) -> dict[str, int]:
    """The size of each tensor in one file, from its header alone."""
    found = {}
    with _opened(path) as file:
        for name in file.keys():  # noqa: SIM118
            part = file.get_slice(name)
            bits = re.sub(r"\D", "", part.get_dtype()) or "8"  # F32, BF16, I8; BOOL takes a byte
            found[name] = math.prod(part.get_shape()) * int(bits) // 8
    return found


def read_tensors(
    path: Path, wanted: Mapping[str, tuple[int, ...]], storage: Storage, hint: str
) -> dict[str, Tensor]:
    """Tensors of one file, by name and shape, as float32; 8-bit ones multiplied by their scales."""
    with _opened(path) as file:
        names = set(file.keys())
        missing = wanted.keys() - names
        if missing:
            raise WeightError(f"{path}: lacks {min(missing)!r}, which should be here by the index")
        for name, shape in wanted.items():  # before anything is allocated
            check_shape(path, name, file.get_slice(name).get_shape(), shape, hint)
        scales = [n + SCALE for n in wanted if n + SCALE in names] if storage == "int8" else []
        found = {name: file.get_tensor(name) for name in [*wanted, *scales]}
    for name, tensor in found.items():
        if tensor.dtype not in FLOATS and not (storage == "int8" and tensor.dtype == torch.int8):
            raise WeightError(f"{path}: {name!r} must be float32, got {tensor.dtype}")
    unpacked = unpack_int8(found, path) if storage == "int8" else found
    tensors = {name: tensor.to(torch.float32) for name, tensor in unpacked.items()}
    for name, tensor in tensors.items():
        check_values(path, name, tensor)
    return tensors


def bytes_in_file(tensors: Mapping[str, Tensor]) -> int:
    """The maximum size of these tensors in a file, without FIXED_BYTES."""
    return sum(tensor.nbytes + len(name) + ENTRY_BYTES for name, tensor in tensors.items())


def _opened(path: Path) -> Any:  # noqa: ANN401 - safetensors has no type for it
    try:
        with open_regular(path) as file:
            start = file.read(9)
    except OSError as error:
        raise WeightError(f"{path}: cannot be read ({error.strerror}); copy it again") from error
    is_safe = start[8:] == b"{"  # after the header's length, which may look like a pickle's start
    if start.startswith(PICKLE_STARTS) and not is_safe:
        raise WeightError(
            f"{path}: this is a pickle (torch.save), which can run code and is never loaded; "
            f"write the tensors with safetensors.torch.save_file instead"
        )
    header = int.from_bytes(start[:8], "little")
    if header > MAX_HEADER_BYTES:
        raise WeightError(
            f"{path}: not a safetensors file of a model: its header says that it takes "
            f"{header:,} bytes, expected at most {MAX_HEADER_BYTES:,}; copy or download it again"
        )
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise WeightError(
            f"{path}: not a complete safetensors file ({error}); copy or download it again"
        ) from error


# --- 8-bit storage


def check_storage(storage: str) -> None:
    """Raise ConfigError unless weights can be stored this way."""
    check_choice("storage", storage, get_args(Storage))


def pack(tensors: dict[str, Tensor], storage: Storage) -> dict[str, Tensor]:
    """Float tensors -> the content of the file."""
    if storage != "int8":
        return tensors
    packed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.ndim < 2 or name.startswith("start_state."):
            packed[name] = tensor
            continue
        rounded, scale = to_int8(tensor.flatten(1))  # (rows, rest), (rows,)
        packed[name], packed[name + SCALE] = rounded.view(tensor.shape), scale
    return packed


def unpack_int8(packed: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """The content of a file with 8-bit storage -> float32 tensors; others stay as they are."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in packed.items():
        if name.endswith(SCALE) and name.removesuffix(SCALE) in packed:
            continue
        if tensor.dtype != torch.int8:
            tensors[name] = tensor
            continue
        if name + SCALE not in packed:
            raise WeightError(f"{path}: {name!r} lacks its {name + SCALE!r}; copy the file again")
        scale = packed[name + SCALE]  # (rows,)
        if scale.shape != tensor.shape[:1]:
            raise WeightError(
                f"{path}: {name + SCALE!r} has the shape {tuple(scale.shape)}, but {name!r} has "
                f"{tensor.shape[0]} rows; copy the file again"
            )
        scale = scale.view(-1, *[1] * (tensor.ndim - 1))  # (rows, 1, …)
        tensors[name] = tensor.to(torch.float32).mul_(scale)
    return tensors


# --- shards of whole tensors


def write_shards(folder: Path, tensors: dict[str, Tensor], shard_bytes: int | None) -> list[str]:
    """Write one file, or shards and their index; return the names of the files."""
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
    """The tensors of each shard, in order; a tensor stays whole and with its scale."""
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
                f"{name!r} takes {size:,} bytes, but a shard may have {shard_bytes:,}; "
                f"allow larger shards"
            )
        if size > room:
            groups.append([])
            room = shard_bytes - FIXED_BYTES
        groups[-1] += unit
        room -= size
    return groups


def tensor_files(place: Callable[[str], Path], is_single: bool) -> dict[str, str]:
    """Tensor -> the name of the file that contains it; `place` gives the path of a file."""
    if is_single:
        return dict.fromkeys(tensor_shapes(place(SINGLE)), SINGLE)
    index = place(INDEX)
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise WeightError(f"{index}: lacks 'weight_map', which names each tensor's shard")
    for shard in weight_map.values():
        if not is_plain_name(shard):
            raise WeightError(f"{index}: shards must be plain file names in this folder")
    return weight_map


def shard_names(stem: str, count: int) -> list[str]:
    """The names of the shards of `stem`, numbered as the Hugging Face libraries do."""
    return [f"{stem}-{i:05}-of-{count:05}.safetensors" for i in range(1, count + 1)]


# --- the softmax, in shards of rows


def write_head(
    folder: Path, head: dict[str, Tensor], storage: Storage, shard_bytes: int | None
) -> list[str]:
    """Write the softmax in files of at most shard_bytes each; return their names."""
    tensors = pack(head, storage)
    num_rows = len(tensors["weight"])
    rows = num_rows if shard_bytes is None else _rows_per_file(tensors, shard_bytes)
    starts = range(0, num_rows, rows)
    names = [HEAD_SINGLE] if len(starts) == 1 else shard_names(HEAD_STEM, len(starts))
    for name, start in zip(names, starts, strict=True):
        part = {key: tensor[start : start + rows] for key, tensor in tensors.items()}
        save_tensors(folder / name, part)
    return names


def head_files(recorded: Iterable[str], config_path: Path) -> list[str]:
    """The softmax's files in row order; none for a model without one.

    Raises WeightError unless it is one file, or a complete set of shards.
    """
    found = sorted(n for n in recorded if n == HEAD_SINGLE or n.startswith(f"{HEAD_STEM}-"))
    if not found or found == [HEAD_SINGLE]:
        return found
    counted = HEAD_SHARD.fullmatch(found[-1])
    wanted = shard_names(HEAD_STEM, int(counted[1])) if counted else [HEAD_SINGLE]
    differing = sorted(set(found) ^ set(wanted))
    if differing:
        what = "lack" if differing[0] in wanted else "have the unexpected"
        raise WeightError(
            f"{config_path}: the recorded shards of the softmax {what} "
            f"{differing[0]!r}; copy the folder again"
        )
    return wanted


def read_head(paths: Sequence[Path], storage: Storage, shape: tuple[int, int]) -> dict[str, Tensor]:
    """The softmax: `weight` of this shape, (V, P), and `bias` (V,), from its files in order."""
    parts = [_read_part(path, storage, shape[1]) for path in paths]
    head = parts[0]
    if len(parts) > 1:
        head = {name: torch.cat([part[name] for part in parts]) for name in HEAD_NAMES}
    where = paths[0] if len(paths) == 1 else paths[0].with_name(f"{HEAD_STEM}-*")
    check_shape(where, "weight", head["weight"].shape, shape, "is vocab.txt from the same model?")
    return head


def _read_part(path: Path, storage: Storage, width: int) -> dict[str, Tensor]:
    shapes = tensor_shapes(path)
    scales = {"weight" + SCALE} if storage == "int8" else set()
    check_names(shapes.keys() - scales, {*HEAD_NAMES}, path, HEAD_HINT)
    rows = next(iter(shapes["weight"]), 0)
    return read_tensors(path, {"weight": (rows, width), "bias": (rows,)}, storage, HEAD_HINT)


def _rows_per_file(tensors: dict[str, Tensor], shard_bytes: int) -> int:
    num_rows = len(tensors["weight"])
    per_row = sum(tensor.nbytes for tensor in tensors.values()) // num_rows
    header = FIXED_BYTES + bytes_in_file({name: tensor[:0] for name, tensor in tensors.items()})
    rows = (shard_bytes - header) // per_row
    if rows < 1:
        raise OutputError(
            f"a word of the softmax takes {per_row:,} bytes, but a shard may have "
            f"{shard_bytes:,}; allow larger shards"
        )
    return min(rows, num_rows)
