"""Writing the segments of an embedded store anew: without what was deleted, in few pieces."""

from __future__ import annotations

import sqlite3
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from relmo.search.rows import POSTING

SEGMENT_ROWS = 8192
"""Passages of a segment after compacting: bounds memory."""
FEW = 256
"""Fewer segments than these need no joining."""


def is_wasteful(db: sqlite3.Connection) -> bool:
    """Whether a third of the rows is dead, or segments are many and small."""
    (live,) = db.execute("SELECT count(*) FROM passages").fetchone()
    segments, held = db.execute(
        "SELECT count(*), coalesce(sum(length(ids)) / 8, 0) FROM segments"
    ).fetchone()
    return bool(held > 1.5 * live or (segments > FEW and held < segments * SEGMENT_ROWS / 16))


def compact(db: sqlite3.Connection) -> None:
    """Rewrite segments and postings; the caller holds a transaction around it."""
    alive = np.fromiter((n for (n,) in db.execute("SELECT id FROM passages")), np.int64)
    (last,) = db.execute("SELECT coalesce(max(id), 0) FROM segments").fetchone()
    held: list[tuple[NDArray[np.void], ...]] = []
    for number in [n for (n,) in db.execute("SELECT id FROM segments ORDER BY id")]:
        query = "SELECT ids, lengths, vectors FROM segments WHERE id = ?"
        ids, lengths, vectors = db.execute(query, (number,)).fetchone()
        numbers = np.frombuffer(ids, "<i8")
        kept = np.isin(numbers, alive)
        matrix = np.frombuffer(vectors, "<f2").reshape(len(numbers), -1)
        held.append((numbers[kept], np.frombuffer(lengths, "<u4")[kept], matrix[kept]))
        if sum(len(each[0]) for each in held) >= SEGMENT_ROWS:
            _write(db, held)
            held = []
    _write(db, held)
    db.execute("DELETE FROM segments WHERE id <= ?", (last,))
    _compact_postings(db, alive)


def _write(db: sqlite3.Connection, held: list[tuple[NDArray[np.void], ...]]) -> None:
    joined = [np.concatenate(each).tobytes() for each in zip(*held, strict=True)]
    if joined and joined[0]:
        db.execute("INSERT INTO segments (ids, lengths, vectors) VALUES (?, ?, ?)", joined)


def _compact_postings(db: sqlite3.Connection, alive: NDArray[np.int64]) -> None:
    """One list per term, made in order of the terms: one term at a time is in memory."""
    db.execute("ALTER TABLE postings RENAME TO old_postings")
    db.execute(
        "CREATE TABLE postings (term TEXT NOT NULL, segment INTEGER NOT NULL, rows BLOB NOT NULL, "
        "PRIMARY KEY (term, segment)) WITHOUT ROWID"
    )
    pairs = db.execute("SELECT term, rows FROM old_postings ORDER BY term, segment")
    for term, group in groupby(pairs, key=lambda pair: pair[0]):
        rows = np.frombuffer(b"".join(blob for _, blob in group), POSTING)
        kept = rows[np.isin(rows["id"], alive)]
        if len(kept):
            db.execute("INSERT INTO postings VALUES (?, 0, ?)", (term, kept.tobytes()))
    db.execute("DROP TABLE old_postings")
