"""What a search in memory works on: the live passages of an embedded store, a row each."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from relmo.types import Vectors

POSTING = np.dtype([("id", "<u4"), ("count", "<u4")])
"""One passage in the list of a term."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Passages in order of their numbers."""

    ids: NDArray[np.int64]  # (N,)
    lengths: NDArray[np.float64]  # (N,) terms
    vectors: Vectors  # (N, D)
    last_segment: int
    generation: int
    """Segments before `generation` were written anew since."""

    @property
    def mean_length(self) -> float:
        """Terms of a passage."""
        return max(float(self.lengths.mean()), 1e-9)

    @classmethod
    def read(cls, db: sqlite3.Connection, old: Rows | None = None) -> Rows:
        """All live rows; of an older reading only what is new is read from the file."""
        (first,) = db.execute("SELECT coalesce(min(id), 0) FROM segments").fetchone()
        if old is not None and first != old.generation:
            old = None
        last = -1 if old is None else old.last_segment
        query = "SELECT id, ids, lengths, vectors FROM segments WHERE id > ? ORDER BY id"
        parts = [] if old is None else [(old.ids, old.lengths, old.vectors)]
        for number, ids, lengths, vectors in db.execute(query, (last,)):
            last = number
            numbers = np.frombuffer(ids, "<i8")
            matrix = np.frombuffer(vectors, "<f2").astype(np.float32).reshape(len(numbers), -1)
            parts.append((numbers, np.frombuffer(lengths, "<u4").astype(np.float64), matrix))
        if not parts:
            return cls(np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 0), np.float32), -1, first)
        ids, lengths, vectors = (np.concatenate(each) for each in zip(*parts, strict=True))
        del parts
        alive = np.fromiter((n for (n,) in db.execute("SELECT id FROM passages")), np.int64)
        if len(alive) < len(ids):
            kept = np.isin(ids, alive)
            ids, lengths, vectors = ids[kept], lengths[kept], vectors[kept]
        return cls(ids, lengths, vectors, last, first)

    def places(self, numbers: NDArray[np.int64]) -> NDArray[np.intp]:
        """The rows of passages, in order; those that are not here are left out."""
        return np.flatnonzero(np.isin(self.ids, numbers))

    def vectors_of(self, numbers: NDArray[np.int64]) -> Vectors:
        """The vectors of passages, (n, D); zeros for those that are not here."""
        if len(self.ids) == 0:
            return np.zeros((len(numbers), self.vectors.shape[1]), np.float32)
        at = np.minimum(np.searchsorted(self.ids, numbers), len(self.ids) - 1)
        return np.where((self.ids[at] == numbers)[:, None], self.vectors[at], np.float32(0))

    def live(self, postings: NDArray[np.void]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Rows and counts of the postings whose passages are still there."""
        at = np.searchsorted(self.ids, postings["id"].astype(np.int64))
        at = np.minimum(at, len(self.ids) - 1)
        here = self.ids[at] == postings["id"]
        return at[here], postings["count"][here].astype(np.float64)
