"""Write the documents that pretraining holds out from a corpus, without near-duplicates.

    python scripts/held_out.py --data corpus/*.txt.xz --output held-out

One plain text file per corpus, a blank line between documents; en-wikipedia-0 to -3 are one
corpus, en-wikipedia. A document is left out if most of its 8-grams occur in the training part,
too. near_duplicates.json and a table say how many were, and how much the others share.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from relmo.errors import ConfigError, RelmoError, TextError
from relmo.files import make_folder, replacing, write_json
from relmo.tasks.lm.settings import load_recipe
from relmo.tasks.lm.token_cache import CorpusPart, TokenCache, is_held_out, open_cache
from relmo.text.documents import find_files, read_documents

SETTINGS = load_recipe("base").data
"""Those of the recipes, so that the same documents are held out."""
SUFFIXES = (".gz", ".xz", ".zst")
COLUMNS = ("documents", "words", "dropped", "words_kept", "mean", "p50", "p90", "p99", "max")
PIECE = 1 << 18
"""Ids hashed at a time, or a whole document if it is longer: they fit a processor's cache."""
FILTER_BITS = 24
"""Leading bits of a hash by which most n-grams of the training part are rejected."""
MIX = np.uint64(0x9E3779B97F4A7C15)
STEP = np.uint64(0xD6E8FEB86659FD93)

Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class HeldOut:
    """A document held out from training."""

    corpus: str
    lines: list[str]
    num_words: int
    copied: float
    """Fraction of its 8-grams that occur in the training part."""


def held_out_documents(files: Sequence[Path], cache: TokenCache) -> Iterator[HeldOut]:
    """The documents of `cache.held_out` as text, in order."""
    part = cache.held_out
    shares = copied_shares(cache.train, part)
    share = cache.meta.get("held_out_share", SETTINGS.held_out)  # more of a small text
    number = 0
    for path in files:
        for lines in read_documents(path):
            if not is_held_out(lines, replace(SETTINGS, held_out=share)):
                continue
            if number == len(shares):
                raise TextError(f"{path}: more held-out documents than in {cache.folder}")
            num_words = int((part.document(number) > 1).sum())
            yield HeldOut(corpus_of(path), lines, num_words, float(shares[number]))
            number += 1
    if number < len(shares):
        raise TextError(f"found {number} held-out documents, {cache.folder} has {len(shares)}")


def corpus_of(path: Path) -> str:
    """Name of a file's corpus: its name without suffixes and a number at the end."""
    name = path.name.removesuffix(path.suffix) if path.suffix in SUFFIXES else path.name
    return re.sub(r"-\d+$", "", name.removesuffix(".txt"))


def statistics(documents: Sequence[HeldOut], max_copied: float) -> dict[str, float]:
    """Numbers of documents and words, and the distribution of the copied fractions."""
    shares = np.array([document.copied for document in documents])
    p50, p90, p99 = np.percentile(shares, [50, 90, 99]).tolist()
    return {
        "documents": len(documents),
        "words": sum(d.num_words for d in documents),
        "dropped": sum(d.copied > max_copied for d in documents),
        "words_kept": sum(d.num_words for d in documents if d.copied <= max_copied),
        "mean": float(shares.mean()),
        "p50": p50,
        "p90": p90,
        "p99": p99,
        "max": float(shares.max()),
    }


def table(found: dict[str, dict[str, float]]) -> str:
    """The statistics as Markdown."""
    rows = [("corpus", *COLUMNS), ("---", *["---:"] * len(COLUMNS))]
    for corpus, values in found.items():
        cells = [values[name] for name in COLUMNS]
        rows.append((corpus, *(f"{v:.3f}" if isinstance(v, float) else f"{v:,}" for v in cells)))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def write(documents: Sequence[HeldOut], path: Path) -> None:
    """Write a file of text, a blank line between documents."""
    text = "\n\n".join("\n".join(document.lines) for document in documents)
    with replacing(path) as temporary:
        temporary.write_bytes(f"{text}\n".encode())


# ── near-duplicates ───────────────────────────────────────────────────────────────────────────────


def copied_shares(train: CorpusPart, held_out: CorpusPart, width: int = 8) -> NDArray[np.float64]:
    """Fraction of each held-out document's n-grams of `width` words found in the training part.

    Corpora repeat themselves: reprints, form letters, articles made from one template. A held-out
    document that was copied says little about a model. Sentence boundaries are not words, and an
    n-gram ends with its document; a document of fewer words has none: its fraction is 0.

    N-grams are compared by 64-bit hashes: a collision is less likely than a broken disk. Memory is
    bounded by a piece of the training part and by the held-out part's n-grams.
    """
    if width < 1:
        raise ConfigError(f"width must be an integer ≥ 1, got {width}")
    pieces = list(_ngrams(held_out, width))
    hashes = np.concatenate([np.zeros(0, np.uint64), *(hashes for hashes, _ in pieces)])
    document = np.concatenate([np.zeros(0, np.int64), *(document for _, document in pieces)])
    known, place = np.unique(hashes, return_inverse=True)  # (K,), (n-grams,)
    is_copied = _occur(known, train, width)[place]
    num_documents = len(held_out.documents) - 1
    copied = np.bincount(document, is_copied, num_documents)
    return copied / np.maximum(np.bincount(document, minlength=num_documents), 1)


def _occur(known: Hashes, part: CorpusPart, width: int) -> NDArray[np.bool_]:
    """Which of these sorted hashes occur in the part, (K,)."""
    found = np.zeros(len(known), dtype=np.bool_)
    if not len(known):
        return found
    shift = np.uint64(64 - FILTER_BITS)
    may_be_known = np.zeros(1 << FILTER_BITS, dtype=np.bool_)
    may_be_known[known >> shift] = True
    for hashes, _ in _ngrams(part, width):
        likely = hashes[may_be_known[hashes >> shift]]
        place = np.minimum(np.searchsorted(known, likely), len(known) - 1)
        found[place[known[place] == likely]] = True
    return found


def _ngrams(part: CorpusPart, width: int) -> Iterator[tuple[Hashes, NDArray[np.int64]]]:
    """Hash and document of every n-gram of `width` words, some whole documents at a time."""
    offsets, first = part.documents, 0
    while first < len(offsets) - 1:
        past = int(np.searchsorted(offsets, offsets[first] + PIECE, "right")) - 1
        past = max(past, first + 1)
        ids = part.tokens[offsets[first] : offsets[past]]
        document = np.repeat(np.arange(first, past), np.diff(offsets[first : past + 1]))
        is_word = ids > 1
        words, document = ids[is_word], document[is_word]
        num_ngrams = max(len(words) - width + 1, 0)
        is_whole = document[:num_ngrams] == document[width - 1 :]
        yield _hashes(words, width)[is_whole], document[:num_ngrams][is_whole]
        first = past


def _hashes(words: NDArray[np.uint32], width: int) -> Hashes:
    """A hash per n-gram of `width` words; each of its bits depends on every word."""
    mixed = words.astype(np.uint64) * MIX
    mixed ^= mixed >> np.uint64(32)
    mixed *= MIX
    num_ngrams = max(len(words) - width + 1, 0)
    hashes = np.zeros(num_ngrams, dtype=np.uint64)
    for k in range(width):
        hashes *= STEP
        hashes += mixed[k : k + num_ngrams]
    hashes ^= hashes >> np.uint64(32)
    return hashes * MIX


# ── the command ───────────────────────────────────────────────────────────────────────────────────


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, write the files, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", nargs="+", required=True, help="files, folders or globs of text")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--cache", type=Path, help="token cache [default: OUTPUT/cache]")
    parser.add_argument("--max-copied", type=float, default=0.5, help="drop documents above")
    args = parser.parse_args(arguments)
    try:
        files = find_files(args.data)
        workers = os.cpu_count() or 1
        cache = open_cache(files, args.cache or args.output / "cache", SETTINGS, workers)
        by_corpus: dict[str, list[HeldOut]] = {}
        for document in held_out_documents(files, cache):
            by_corpus.setdefault(document.corpus, []).append(document)
        make_folder(args.output)
        for corpus, documents in by_corpus.items():
            kept = [document for document in documents if document.copied <= args.max_copied]
            write(kept, args.output / f"{corpus}.txt")
        found = {name: statistics(each, args.max_copied) for name, each in by_corpus.items()}
        about = {"cache": cache.folder.name, "max_copied": args.max_copied, "corpora": found}
        write_json(args.output / "near_duplicates.json", about)
    except RelmoError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    print(table(found))


if __name__ == "__main__":
    main()
