"""Vectors of length one, whose products are cosines."""

from __future__ import annotations

import numpy as np

from relmo.types import Vectors


def unit(vectors: Vectors) -> Vectors:
    """Vectors (..., D) scaled to length 1, float32; zeros stay."""
    wide = vectors.astype(np.float32)
    lengths = np.linalg.norm(wide, axis=-1, keepdims=True)
    return np.asarray(wide / np.maximum(lengths, 1e-12))
