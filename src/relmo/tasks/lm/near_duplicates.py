"""How much of each held-out document was copied from the training part, or into it.

Corpora repeat themselves: reprints, form letters, articles made from one template. A held-out
document whose runs of words stand in the training part, too, says little about a model. Runs are
compared by 64-bit hashes: that two different ones look alike is less likely than a broken disk.

Memory is bounded by a piece of the training part and by the held-out part's runs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from relmo.errors import ConfigError
from relmo.tasks.lm.token_cache import Part

PIECE = 1 << 18
"""Ids that are hashed at a time, or a whole document if it is longer: fits a processor's cache."""
FILTER_BITS = 24
"""Leading bits of a hash that most runs of the training part are told apart by."""
MIX = np.uint64(0x9E3779B97F4A7C15)
STEP = np.uint64(0xD6E8FEB86659FD93)

Hashes = NDArray[np.uint64]


def copied_shares(train: Part, held_out: Part, width: int = 8) -> NDArray[np.float64]:
    """Share of each held-out document's runs of `width` words that the training part holds, too.

    Sentence boundaries do not count as words, and a run ends with its document. A document of
    fewer words has no run: its share is 0.
    """
    if width < 1:
        raise ConfigError(f"width is {width}; a run has 1 word or more")
    pieces = list(_runs(held_out, width))
    hashes = np.concatenate([np.zeros(0, np.uint64), *(hashes for hashes, _ in pieces)])
    document = np.concatenate([np.zeros(0, np.int64), *(document for _, document in pieces)])
    known, place = np.unique(hashes, return_inverse=True)  # (K,), (runs,)
    is_copied = _occur(known, train, width)[place]
    num_documents = len(held_out.documents) - 1
    copied = np.bincount(document, is_copied, num_documents)
    return copied / np.maximum(np.bincount(document, minlength=num_documents), 1)


def _occur(known: Hashes, part: Part, width: int) -> NDArray[np.bool_]:
    """Which of these sorted hashes are of runs in the part, (K,)."""
    found = np.zeros(len(known), dtype=np.bool_)
    if not len(known):
        return found
    shift = np.uint64(64 - FILTER_BITS)
    may_be_known = np.zeros(1 << FILTER_BITS, dtype=np.bool_)
    may_be_known[known >> shift] = True
    for hashes, _ in _runs(part, width):
        likely = hashes[may_be_known[hashes >> shift]]
        place = np.minimum(np.searchsorted(known, likely), len(known) - 1)
        found[place[known[place] == likely]] = True
    return found


def _runs(part: Part, width: int) -> Iterator[tuple[Hashes, NDArray[np.int64]]]:
    """Hash and document of every run of `width` words, whole documents at a time."""
    offsets, first = part.documents, 0
    while first < len(offsets) - 1:
        past = int(np.searchsorted(offsets, offsets[first] + PIECE, "right")) - 1
        past = max(past, first + 1)
        ids = part.tokens[offsets[first] : offsets[past]]
        document = np.repeat(np.arange(first, past), np.diff(offsets[first : past + 1]))
        is_word = ids > 1
        words, document = ids[is_word], document[is_word]
        num_runs = max(len(words) - width + 1, 0)
        is_whole = document[:num_runs] == document[width - 1 :]
        yield _hashes(words, width)[is_whole], document[:num_runs][is_whole]
        first = past


def _hashes(words: NDArray[np.uint32], width: int) -> Hashes:
    """One number per run of `width` words; every bit of it depends on every word."""
    mixed = words.astype(np.uint64) * MIX
    mixed ^= mixed >> np.uint64(32)
    mixed *= MIX
    num_runs = max(len(words) - width + 1, 0)
    hashes = np.zeros(num_runs, dtype=np.uint64)
    for k in range(width):
        hashes *= STEP
        hashes += mixed[k : k + num_runs]
    hashes ^= hashes >> np.uint64(32)
    return hashes * MIX
