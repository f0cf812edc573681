"""The vectors of a text's tokens -> one vector for the text."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from relmo.config import check_choice
from relmo.types import Vectors

Pooling = Literal["mean", "max", "first", "last"]
SQUARABLE = 1e15
"""Squares of numbers up to it, and down to its inverse, are exact enough as float32."""


def pool(tokens: Vectors, how: Pooling, weights: Vectors | None = None) -> Vectors:
    """(T, D) -> (D,); a text without tokens gives zeros.

    Args:
        tokens: vectors of all tokens of a text.
        how: the kind of pooling.
        weights: (T,) ≥ 0, one per token, for a weighted mean.
    """
    check_choice("pooling", how, get_args(Pooling))
    if len(tokens) == 0:
        return np.zeros(tokens.shape[1], dtype=np.float32)
    if weights is not None:
        assert how == "mean", "weights apply to mean pooling only"
        pooled = weights @ tokens / (float(weights.sum()) or 1.0)
    elif how == "mean":
        pooled = tokens.mean(0, dtype=np.float32)
    elif how == "max":
        pooled = tokens.max(0)
    else:
        pooled = tokens[0 if how == "first" else -1]
    return np.asarray(pooled, dtype=np.float32)


def normalize(vectors: Vectors) -> Vectors:
    """Scale each vector to unit length; zero vectors stay zero. (..., D) -> (..., D)."""
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    is_extreme = (norms < 1 / SQUARABLE) | (norms > SQUARABLE)
    if is_extreme.any():  # by the largest value first: its square might not be a float32
        largest = np.abs(vectors).max(-1, keepdims=True, initial=0)
        scales = np.where(is_extreme & (largest > 0), largest, 1)
        vectors = np.asarray(vectors / scales, dtype=np.float32)
        norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(norms == 0, 1, norms), dtype=np.float32)
