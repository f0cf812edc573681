"""Vectors of texts all point one way; taking that way out lets meaning show.

ELMo's vectors share a large common part: two texts that have nothing to do with each other have a
high cosine. Ways to undo it, each fitted to a sample of passages:

    mean         subtract the mean
    directions   and remove the few directions in which passages vary most, which hold style and
                 frequency more than meaning (Mu and Viswanath 2018)
    whiten       and make all directions vary alike, those of small variance less than wholly so

Few passages do not show what all text shares; where they are few, a background of other texts
(`background.py`) shows it with them.

It is fitted once, when an index is made, and kept with it: a passage's vector depends on the model
and this, never on what is added later.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from relmo.errors import ConfigError
from relmo.runtime.pooling import normalize
from relmo.types import Vectors

Fix = Literal["none", "mean", "directions", "whiten"]
Exact = NDArray[np.float64]
RIDGE = 1e-3
"""Variance, as a share of the largest, below which a direction is held to be noise."""
FEW = 20
"""So few passages are trusted by half: the mean of few texts is those texts themselves."""
SOME = 100
"""Passages that a background stands for."""


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
    def fit(
        cls,
        sample: Vectors,
        fix: Fix = "whiten",
        remove: int = 12,
        background: Vectors | None = None,
    ) -> Isotropy:
        """From the vectors of a sample, (N, D); a small sample is trusted less.

        Args:
            sample: vectors of passages.
            fix: what is undone.
            remove: number of directions, for "directions".
            background: vectors of texts about anything, (M, D), which count as SOME passages.
        """
        N, D = sample.shape
        mean: Exact = np.zeros(D)
        scale, turned = np.ones(D), np.eye(D)
        if fix != "none" and (N or background is not None):
            mean, variance, trusted = _moments(sample, background)
            if fix != "mean":
                variance, turned = np.linalg.eigh(variance)  # rising; columns of (D, D)
                largest = max(float(variance[-1]), 1e-12)
                if fix == "whiten":
                    ridge = RIDGE + (0.0 if background is not None else (FEW / N) ** 2)
                    scale = 1 / np.sqrt(np.maximum(variance, 0) / largest + ridge)
                else:
                    scale[D - min(remove, trusted // FEW, D) :] = 0
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


def _moments(sample: Vectors, background: Vectors | None) -> tuple[Exact, Exact, int]:
    """Mean (D,) and covariance (D, D) of passages, and how many vectors they rest on."""
    N = len(sample)
    if background is None:
        mean, variance = _mean_and_covariance(sample)
        return mean * (N / (N + FEW)), variance, N
    mean, variance = _mean_and_covariance(background)
    if N:
        share = N / (N + SOME)
        own, varies = _mean_and_covariance(sample)
        mean, variance = (1 - share) * mean + share * own, (1 - share) * variance + share * varies
    return mean, variance, N + len(background)


def _mean_and_covariance(vectors: Vectors) -> tuple[Exact, Exact]:
    centred = (vectors - vectors.mean(0)).astype(np.float64)  # (N, D)
    return vectors.mean(0, dtype=np.float64), centred.T @ centred / len(vectors)
