"""Latent dimensions of an index: which words come together in its own passages.

    terms of a sample of passages (N, V) -> weights: saturated counts * rarity, unit-length rows
    -> its K main directions, by a truncated SVD -> a vector per term (V, K)
    text -> its weights @ vectors of its terms -> unit length (K,)

A model knows what words mean in general; this knows which words belong together here, and tells
rare ones apart (Deerwester et al. 1990). It is fitted once, when the index is created: a text's
vector never depends on what is added later. A term that the sample did not have adds nothing.
"""

from __future__ import annotations

import io
import json
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from relmo.runtime.pooling import normalize
from relmo.search.encoder import read_array
from relmo.search.lexical import K1, rarity
from relmo.types import Vectors

MAX_TERMS = 50_000
"""Terms that are kept, those of most passages."""
LEAST_PASSAGES, MANY_PASSAGES = 2, 512
"""Of the sample that must have a term, and from how many passages on."""
OVERSAMPLED, ROUNDS = 32, 6
"""Of the randomized SVD (Halko et al. 2011): further directions, and how often it is refined."""
_LENGTH = struct.Struct("<Q")

Terms = Sequence[str]


@dataclass(frozen=True, eq=False, slots=True)
class LatentWords:
    """A vector for each term of a sample of passages."""

    row_of: dict[str, int]
    rarity: Vectors
    """(V,) weight of one occurrence."""
    codes: NDArray[np.int8]
    """(V, K) vectors of the terms, in 8 bits."""
    scales: Vectors
    """(V,) by which their rows are multiplied."""

    @property
    def width(self) -> int:
        """K."""
        return int(self.codes.shape[1])

    @classmethod
    def fit(cls, sample: Sequence[Terms], width: int) -> LatentWords:
        """Fit to the terms of some passages.

        Args:
            sample: the terms of each.
            width: at most so many dimensions; there are no more than passages or terms.
        """
        passages = Counter(term for terms in sample for term in set(terms))
        least = LEAST_PASSAGES if len(sample) >= MANY_PASSAGES else 1
        kept = sorted((term for term, count in passages.items() if count >= least))
        kept = sorted(kept, key=lambda term: -passages[term])[:MAX_TERMS]
        row_of = {term: row for row, term in enumerate(kept)}
        counts = np.array([passages[term] for term in kept], np.float64)
        weights = rarity(counts, len(sample)).astype(np.float32)  # (V,)
        matrix = _weights(sample, row_of, weights)  # (N, V)
        vectors = _main_directions(matrix, min(width, len(sample), len(kept)))  # (V, K)
        scales = np.abs(vectors).max(1, initial=0) / 127  # (V,)
        codes = np.round(vectors / np.where(scales, scales, 1)[:, None]).astype(np.int8)
        return cls(row_of, weights, codes, scales.astype(np.float32))

    def vectors(self, texts: Sequence[Terms]) -> Vectors:
        """Unit-length vectors of texts, given their terms: (N, K); zeros without a known term."""
        found = np.zeros((len(texts), self.width), np.float32)
        for row, terms in zip(found, texts, strict=True):
            counts = Counter(term for term in terms if term in self.row_of)
            rows = [self.row_of[term] for term in counts]
            if rows:
                weights = _saturated(np.array(list(counts.values()))) * self.rarity[rows]
                row[:] = (weights * self.scales[rows]) @ self.codes[rows]
        return normalize(found)

    def to_bytes(self) -> bytes:
        """All of it."""
        numbers = np.stack([self.rarity, self.scales])
        parts = (json.dumps(list(self.row_of)).encode(), _saved(numbers), _saved(self.codes))
        return b"".join(_LENGTH.pack(len(part)) + part for part in parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> LatentWords:
        """Read what `to_bytes` wrote; ValueError if it is anything else."""
        parts, start = [], 0
        for _ in range(3):
            (length,) = _LENGTH.unpack_from(data, start)
            start += _LENGTH.size + length
            parts.append(data[start - length : start])
        terms = json.loads(parts[0])
        if not isinstance(terms, list) or not all(isinstance(term, str) for term in terms):
            raise ValueError("its terms are not strings")
        V = len(terms)
        numbers = read_array(parts[1], "terms", "f4", (2, V))
        codes = read_array(parts[2], "terms", "i1", (V, None))
        if len(set(terms)) < V:
            raise ValueError("its terms come twice")
        row_of = {term: row for row, term in enumerate(terms)}
        return cls(row_of, numbers[0], codes, numbers[1])


def _saved(array: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _saturated(counts: NDArray[np.int64]) -> Vectors:
    """What so many occurrences of a term count."""
    return np.asarray(counts * (K1 + 1) / (counts + K1), dtype=np.float32)


def _weights(sample: Iterable[Terms], row_of: dict[str, int], rarity: Vectors) -> torch.Tensor:
    """The weights of terms in passages, unit-length rows of a sparse matrix (N, V)."""
    number, rows, columns, values = 0, list[int](), list[int](), list[float]()
    for number, terms in enumerate(sample, 1):
        counts = Counter(row_of[term] for term in terms if term in row_of)
        at = list(counts)
        weights = _saturated(np.array(list(counts.values()), np.int64)) * rarity[at]
        rows += [number - 1] * len(at)
        columns += at
        values += normalize(weights).tolist()
    shape = number, len(row_of)
    places = torch.tensor([rows, columns], dtype=torch.long)
    weighted = torch.tensor(values, dtype=torch.float32)
    return torch.sparse_coo_tensor(places, weighted, shape, check_invariants=True).coalesce()


def _main_directions(matrix: torch.Tensor, width: int) -> Vectors:
    """The main right singular vectors of (N, V), as columns (V, K), by a randomized SVD."""
    N, V = matrix.shape
    if not width:
        return np.zeros((V, 0), np.float32)
    turned = matrix.t()  # (V, N)
    size = min(width + OVERSAMPLED, N, V)
    generator = torch.Generator().manual_seed(0)
    basis = torch.randn(V, size, generator=generator)
    for _ in range(ROUNDS):
        basis = torch.linalg.qr(matrix @ basis)[0]  # (N, size)
        basis = torch.linalg.qr(turned @ basis)[0]  # (V, size)
    small = matrix @ basis  # (N, size)
    inner = torch.linalg.eigh((small.T @ small).double()).eigenvectors  # by ascending variance
    found = basis @ inner.flip(1)[:, :width].float()  # (V, K)
    return np.asarray(found.numpy())
