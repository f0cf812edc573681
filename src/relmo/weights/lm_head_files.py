"""The softmax of the language models on disk: one file, or shards of consecutive rows.

    lm_head.safetensors                  weight (V, P), bias (V,)
    lm_head-00001-of-00003.safetensors   the same of the first rows, and so on

The weight is one tensor, often the model's largest, so it is cut between rows; with 8-bit storage
each shard holds `weight.scale` of its own rows. config.json records the files: no index is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from relmo.errors import OutputError, WeightError
from relmo.weights.safetensors_files import (
    FIXED_BYTES,
    bytes_in_file,
    pack,
    read_tensors,
    save_tensors,
    shard_names,
    tensor_names,
)
from relmo.weights.tensors import Storage, check_finite, check_names, check_shape

STEM = "lm_head"
SINGLE = "lm_head.safetensors"
SHARD = re.compile(r"lm_head-\d{5}-of-(\d{5})\.safetensors", re.ASCII)
HINT = "is it of the same model? Copy the folder again"


def write_head(
    folder: Path, head: dict[str, Tensor], storage: Storage, shard_bytes: int | None
) -> list[str]:
    """Write the softmax in files of at most shard_bytes each; give their names."""
    tensors = pack(head, storage)
    num_rows = len(tensors["weight"])
    rows = num_rows if shard_bytes is None else _rows_per_file(tensors, shard_bytes)
    starts = range(0, num_rows, rows)
    names = [SINGLE] if len(starts) == 1 else shard_names(STEM, len(starts))
    for name, start in zip(names, starts, strict=True):
        part = {key: tensor[start : start + rows] for key, tensor in tensors.items()}
        save_tensors(folder / name, part)
    return names


def head_files(recorded: Iterable[str], folder: Path) -> list[str]:
    """The softmax's files in the order of their rows; none for a model without one.

    Raises WeightError unless they are one file, or all the shards that their names count.
    """
    found = sorted(name for name in recorded if name == SINGLE or name.startswith(f"{STEM}-"))
    if not found or found == [SINGLE]:
        return found
    counted = SHARD.fullmatch(found[-1])
    wanted = shard_names(STEM, int(counted[1])) if counted else [SINGLE]
    odd = sorted(set(found) ^ set(wanted))
    if odd:
        what = "lacks" if odd[0] in wanted else "has the odd"
        raise WeightError(
            f"{folder / 'config.json'}: its record of the softmax's shards {what} {odd[0]!r}; "
            f"copy the folder again"
        )
    return wanted


def read_head(
    folder: Path, files: list[str], storage: Storage, shape: tuple[int, int]
) -> dict[str, Tensor]:
    """The softmax: `weight` of that shape, (V, P), and `bias` (V,)."""
    parts = [_read_part(folder / file, storage, shape[1]) for file in files]
    if len(parts) == 1:
        head = parts[0]
    else:
        head = {name: torch.cat([part[name] for part in parts]) for name in ("weight", "bias")}
    where = folder / (files[0] if len(files) == 1 else f"{STEM}-*")
    found = tuple(head["weight"].shape)
    check_shape(where, "weight", found, shape, "is vocab.txt of the same model?")
    return head


def _read_part(path: Path, storage: Storage, width: int) -> dict[str, Tensor]:
    part = read_tensors(path, tensor_names(path), storage)
    check_names(set(part), {"weight", "bias"}, path, HINT)
    rows = len(part["weight"]) if part["weight"].ndim else 0
    for name, wanted in (("weight", (rows, width)), ("bias", (rows,))):
        check_shape(path, name, tuple(part[name].shape), wanted, HINT)
        check_finite(path, name, part[name])
    return part


def _rows_per_file(tensors: dict[str, Tensor], shard_bytes: int) -> int:
    num_rows = len(tensors["weight"])
    per_row = sum(tensor.nbytes for tensor in tensors.values()) // num_rows
    header = FIXED_BYTES + bytes_in_file({name: tensor[:0] for name, tensor in tensors.items()})
    rows = (shard_bytes - header) // per_row
    if rows < 1:
        raise OutputError(
            f"a word of the softmax has {per_row:,} bytes, a shard may have {shard_bytes:,}; "
            f"allow larger shards"
        )
    return min(rows, num_rows)
