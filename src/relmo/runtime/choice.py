"""Layers of a batch -> the vectors that a caller asked for, sentence by sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import cast, get_args

import torch
from torch import Tensor

from relmo.errors import ConfigError
from relmo.kernels.device import begin_host_copy
from relmo.runtime.device import in_threads
from relmo.types import VectorDtype, Vectors


def check_dtype(dtype: str) -> None:
    """Raise ConfigError for a kind of numbers that vectors do not come in."""
    if dtype not in get_args(VectorDtype):
        known = ", ".join(get_args(VectorDtype))
        raise ConfigError(f"dtype is {dtype!r}; choose one of {known}")


def split_layers(
    values: Tensor, sentences: Sequence[Sequence[str]], dtype: VectorDtype = "float32"
) -> list[Vectors]:
    """(…, B, T, D) of a padded batch -> (…, T, D) of each sentence, without its boundaries."""
    return begin_split(values, sentences, dtype)()


def begin_split(
    values: Tensor, sentences: Sequence[Sequence[str]], dtype: VectorDtype
) -> Callable[[], list[Vectors]]:
    """Start `split_layers`; what is given back waits for the vectors."""
    wait = begin_host_copy(values.to(torch.float16 if dtype == "float16" else torch.float32))
    lengths = [len(sentence) for sentence in sentences]

    def copies(array: Vectors, rows: Iterable[int]) -> list[Vectors]:
        return [array[..., b, 1 : lengths[b] + 1, :].copy() for b in rows]

    if values.is_cuda:  # a GPU makes vectors faster than one thread copies them
        return lambda: in_threads(partial(copies, cast("Vectors", wait())), len(lengths))
    found = copies(cast("Vectors", wait()), range(len(lengths)))
    return lambda: found  # nothing to wait for: the batch need not stay until the next is begun
