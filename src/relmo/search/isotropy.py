"""Vectors of texts all point one way; taking that way out lets meaning show.

ELMo's vectors share a large common part: two texts that have nothing to do with each other have a
high cosine. Ways to undo it, each fitted to a sample of passages:

    mean         subtract the mean
    directions   and remove the few directions in which passages vary most, which hold style and
                 frequency more than meaning (Mu and Viswanath 2018)
    whiten       and make all directions vary alike, those of small variance less than wholly so

It is fitted once, when an index is made, and kept with it: a passage's vector depends on the model
and this, never on what is added later.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from relmo.errors import ConfigError
from relmo.nn.pooling import normalize
from relmo.types import Vectors

Fix = Literal["none", "mean", "directions", "whiten"]
RIDGE = 1e-3
"""Variance, as a share of the largest, below which a direction is held to be noise."""
FEW = 20
"""So few passages are trusted by half: the mean of few texts is those texts themselves."""


def check_fix(fix: str) -> None:
    """Raise ConfigError for a fix that is not known."""
    if fix not in get_args(Fix):
        raise ConfigError(f"isotropy is {fix!r}; choose one of {', '.join(get_args(Fix))}")


@dataclass(frozen=True, slots=True)
class Isotropy:
    """vector = unit((x - mean) @ matrix)."""

    mean: Vectors  # (D,)
    matrix: Vectors  # (D, D)

    @classmethod
    def fit(cls, sample: Vectors, fix: Fix = "whiten", remove: int = 12) -> Isotropy:
        """From the vectors of a sample, (N, D); a small sample is trusted less.

        Args:
            sample: vectors of passages.
            fix: what is undone.
            remove: number of directions, for "directions".
        """
        N, D = sample.shape
        mean, scale = np.zeros(D), np.ones(D)
        turned = np.eye(D)
        if fix != "none" and N:
            mean = sample.mean(0, dtype=np.float64) * (N / (N + FEW))
        if fix in ("directions", "whiten") and N:
            centred = (sample - sample.mean(0)).astype(np.float64)  # (N, D)
            variance, turned = np.linalg.eigh(centred.T @ centred / N)  # rising; columns of (D, D)
            largest = max(float(variance[-1]), 1e-12)
            if fix == "whiten":
                ridge = RIDGE + (FEW / N) ** 2
                scale = 1 / np.sqrt(np.maximum(variance, 0) / largest + ridge)
            else:
                scale[D - min(remove, N // FEW, D) :] = 0
        matrix = (turned * scale) @ turned.T  # (D, D): turned, scaled, turned back
        return cls(mean.astype(np.float32), matrix.astype(np.float32))

    def apply(self, vectors: Vectors) -> Vectors:
        """(N, D) -> (N, D), each of length one; a row of zeros, a text without words, stays so."""
        changed = np.asarray((vectors - self.mean) @ self.matrix, dtype=np.float32)  # (N, D)
        changed[~vectors.any(1)] = 0
        return normalize(changed)

    def to_bytes(self) -> bytes:
        """As it is kept in the store."""
        buffer = io.BytesIO()
        np.save(buffer, np.vstack([self.mean, self.matrix]), allow_pickle=False)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Isotropy:
        """As it was kept."""
        rows = np.load(io.BytesIO(data), allow_pickle=False)
        return cls(rows[0], rows[1:])
