"""The vectors of a text's tokens -> one vector for the text."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from relmo.errors import ConfigError
from relmo.types import Vectors

Pooling = Literal["mean", "max", "first", "last"]


def pool(tokens: Vectors, how: Pooling) -> Vectors:
    """(T, D) -> (D,); a text without tokens gives zeros."""
    check_pooling(how)
    if len(tokens) == 0:
        return np.zeros(tokens.shape[1], dtype=np.float32)
    if how == "mean":
        pooled = tokens.mean(0, dtype=np.float32)
    elif how == "max":
        pooled = tokens.max(0)
    else:
        pooled = tokens[0 if how == "first" else -1]
    return np.asarray(pooled, dtype=np.float32)


def check_pooling(how: str) -> None:
    """Raise ConfigError for a way to pool that is not known."""
    if how not in get_args(Pooling):
        raise ConfigError(f"pooling is {how!r}; choose one of {', '.join(get_args(Pooling))}")


def normalize(vectors: Vectors) -> Vectors:
    """Each vector with length one; one of zeros stays so. (..., D) -> (..., D)."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(norms == 0, 1, norms), dtype=np.float32)
