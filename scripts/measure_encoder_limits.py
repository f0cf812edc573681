"""Measure what a text encoder does not tell apart: numbers, negation, who did it to whom.

    python scripts/measure_encoder_limits.py relmo-en-search en-wikinews.txt.xz

Of the first sentences of news articles, each changed in one way, prints the mean cosine of a
sentence with its changed form, beside that of a sentence with the next one of its article.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import relmo
from relmo.text.documents import read_documents
from relmo.text.sentences import split_sentences

SENTENCES = 2000
_AUXILIARY = re.compile(r"\b(was|were|is|are|has|have|had|will)\b")
_NUMBER = re.compile(r"\b\d{1,3}\b")
_NAMES = re.compile(r"\b([A-Z][a-z]+) ([a-z]+ed) ([A-Z][a-z]+)\b")


def pairs_of_sentences(path: Path) -> Iterator[tuple[str, str]]:
    """The first two sentences of each article."""
    for lines in read_documents(path):
        body = next((line for line in lines[1:] if len(line) > 120), "")
        found = [body[start:end] for start, end in split_sentences(body)]
        if len(found) > 1:
            yield found[0], found[1]


CHANGES: dict[str, Callable[[str], str]] = {
    "another number": lambda text: _NUMBER.sub(lambda n: str(int(n[0]) * 3 + 7), text, count=1),
    "a negation": lambda text: _AUXILIARY.sub(r"\1 not", text, count=1),
    "names exchanged": lambda text: _NAMES.sub(r"\3 \2 \1", text, count=1),
    "words reversed": lambda text: " ".join(reversed(text.split())),
}


def main() -> None:
    """Print the mean cosines."""
    encoder, pairs = (
        relmo.load(sys.argv[1]),
        list(islice(pairs_of_sentences(Path(sys.argv[2])), SENTENCES)),
    )

    def mean_cosine(couples: list[tuple[str, str]]) -> float:
        first, second = (encoder.encode([couple[side] for couple in couples]) for side in (0, 1))
        return statistics.fmean((first * second).sum(1).tolist())

    print(f"the next sentence: {mean_cosine(pairs):.3f} ({len(pairs):,} sentences)")
    for name, change in CHANGES.items():
        couples = [(text, change(text)) for text, _ in pairs]
        changed = [couple for couple in couples if couple[0] != couple[1]]
        print(f"{name}: {mean_cosine(changed):.3f} ({len(changed):,} sentences)")


if __name__ == "__main__":
    main()
