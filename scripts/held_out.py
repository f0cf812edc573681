"""Write the documents that pretraining keeps out of a corpus, without those it has seen elsewhere.

    python scripts/held_out.py --data corpus/*.txt.xz --output held-out

One plain text file per corpus, a blank line between documents; en-wikipedia-0 to -3 are one
corpus, en-wikipedia. A document whose runs of eight words mostly stand in the training part, too,
is left out. near_duplicates.json and a table say how many, and how much the others share.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from relmo.errors import RelmoError, TextError
from relmo.files import make_folder, replacing, write_json
from relmo.tasks.lm.near_duplicates import copied_shares
from relmo.tasks.lm.settings import load_recipe
from relmo.tasks.lm.token_cache import TokenCache, is_held_out, open_cache
from relmo.text.documents import find_files, read_documents

SETTINGS = load_recipe("base").data
"""Those of the recipes: the same documents are held out."""
SUFFIXES = (".gz", ".xz", ".zst")
COLUMNS = ("documents", "words", "dropped", "words_kept", "mean", "p50", "p90", "p99", "max")


@dataclass(frozen=True)
class HeldOut:
    """A document that is kept out of training."""

    corpus: str
    lines: list[str]
    num_words: int
    copied: float
    """Share of its runs of eight words that the training part holds, too."""


def held_out_documents(files: Sequence[Path], cache: TokenCache) -> Iterator[HeldOut]:
    """The documents of `cache.held_out` as text, in order."""
    part = cache.held_out
    shares = copied_shares(cache.train, part)
    number = 0
    for path in files:
        for lines in read_documents(path):
            if not is_held_out(lines, SETTINGS):
                continue
            if number == len(shares):
                raise TextError(f"{path}: more documents are held out than {cache.folder} has")
            num_words = int((part.document(number) > 1).sum())
            yield HeldOut(corpus_of(path), lines, num_words, float(shares[number]))
            number += 1
    if number < len(shares):
        raise TextError(f"{number} documents are held out, {cache.folder} has {len(shares)}")


def corpus_of(path: Path) -> str:
    """Name of a file's corpus: without its suffixes and a number at the end."""
    name = path.name.removesuffix(path.suffix) if path.suffix in SUFFIXES else path.name
    return re.sub(r"-\d+$", "", name.removesuffix(".txt"))


def statistics(documents: Sequence[HeldOut], max_copied: float) -> dict[str, float]:
    """Numbers of documents and words, and how the copied shares are spread."""
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
    """One file of text, a blank line between documents."""
    text = "\n\n".join("\n".join(document.lines) for document in documents)
    with replacing(path) as temporary:
        temporary.write_bytes(f"{text}\n".encode())


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, write the files, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", nargs="+", required=True, help="files, folders or globs of text")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--cache", type=Path, help="where tokenised text is kept; OUTPUT/cache")
    parser.add_argument("--max-copied", type=float, default=0.5, help="larger shares are left out")
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
