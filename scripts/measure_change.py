"""How well `relmo change` tells words whose use changed from words whose use did not.

    python scripts/measure_change.py --before a.txt --after b.txt --tags en_ewt-ud-train.conllu

The words are made up, so that what changed is known. A pair is two words, a and b, of one part of
speech and of like frequency in both corpora; the pseudo-word is "ab". A changed one stands for a
before, and after for b in a share of its places (0.2 to 1), else for a. An unchanged one has the
same share of b in both: it is as ambiguous, but not changed. In each sentence every a and b is
replaced by the pseudo-word before it is read, so that its form tells nothing.

Each measure's AUC is the chance that a changed word has the higher value than an unchanged one.
Vectors: what the context expects, as it is, or aligned so that places of other words have the same
mean in both corpora (`--align`); whitened or not. The command takes senses from whitened vectors
and distances from the others. Output is Markdown.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from relmo import Elmo
from relmo.progress import progress
from relmo.runtime.pooling import normalize
from relmo.senses.change import MEASURES, Assignments, assignments, measure, passages_of
from relmo.senses.clusters import cluster
from relmo.senses.places import (
    Corpus,
    Placed,
    Whitening,
    align,
    expected_elsewhere,
    read_states,
)
from relmo.senses.senses import THRESHOLD
from relmo.text.places import Place
from relmo.types import Vectors

SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)
THRESHOLDS = {"plain": 0.27, "plain, whitened": None, "aligned": 0.27, "aligned, whitened": None}
"""By kind of vector: below which clusters are different senses, None for the command's."""
OPEN_CLASSES = ("NOUN", "VERB", "ADJ")
ALIKE = 4
"""Letters at the beginning that the two words of a pair do not share."""


def parts_of_speech(path: Path) -> dict[str, str]:
    """Lower-case words of letters that have one part of speech in nine of ten places."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = line.split("\t")
        if len(cells) > 3 and cells[1].isalpha() and cells[1].islower():
            counts[cells[1]][cells[3]] += 1
    best = {word: own.most_common(1)[0] for word, own in counts.items()}
    return {
        word: tag
        for word, (tag, n) in best.items()
        if tag in OPEN_CLASSES and n >= 5 and n >= 0.9 * counts[word].total()
    }


def choose_pairs(
    counts: Sequence[Counter[str]], tags: Mapping[str, str], least: int, number: int, seed: int
) -> list[tuple[str, str]]:
    """Pairs of words of like frequency, which stand at least so often in each corpus."""
    pairs: list[tuple[str, str]] = []
    rng = random.Random(seed)
    for tag in OPEN_CLASSES:
        often = {w: min(c[w] for c in counts) for w, own in tags.items() if own == tag}
        words = sorted((w for w, n in often.items() if n >= least), key=lambda w: (often[w], w))
        at = 0
        while at + 1 < len(words):
            a, b = words[at : at + 2]
            if a[:ALIKE] == b[:ALIKE]:
                at += 1
                continue
            pairs.append((a, b) if rng.random() < 0.5 else (b, a))
            at += 2
    rng.shuffle(pairs)
    return pairs[:number]


def disguise(placed: Sequence[Placed], pair: tuple[str, str]) -> list[Placed]:
    """The places with all forms of both words replaced by the pseudo-word."""
    name = "".join(pair)
    found = []
    for words, place, passage, *_ in placed:
        hidden = tuple(name if word.casefold() in pair else word for word in words)
        found.append(Placed(hidden, Place(0, place.position, 1, "", 0, 0), passage))
    return found


def mixes() -> Iterator[tuple[float, bool, float, float]]:
    """Share of b in a test word, whether it changed, its shares of b before and after."""
    for share in SHARES:
        yield share, True, 0.0, share
        yield share, False, share, share


def auc(changed: ArrayLike, unchanged: ArrayLike) -> float:
    """The chance that one of the changed is higher than one of the unchanged, in percent."""
    one, other = np.asarray(changed)[:, None], np.asarray(unchanged)
    return float(100 * ((one > other) + 0.5 * (one == other)).mean())


class Scores:
    """Values and p-values of all test words, by kind of vector and measure."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str, float, bool], list[float]] = defaultdict(list)
        self.p: dict[tuple[str, str, float, bool], list[float]] = defaultdict(list)

    def add(
        self, kind: str, share: float, changed: bool, sets: Sequence[Vectors], drawn: Assignments
    ) -> None:
        """Measure a test word: its vectors before and after."""
        vectors = np.concatenate(sets)
        labels = cluster(vectors, THRESHOLDS[kind] or THRESHOLD / vectors.shape[1] ** 0.5)
        for name, measured in zip(MEASURES, measure(vectors, labels, drawn), strict=True):
            self.values[kind, name, share, changed].append(measured.value)
            assert measured.p is not None  # there are passages enough
            self.p[kind, name, share, changed].append(measured.p)

    def table(self) -> None:
        """Print AUC by share, and how often p < 0.05."""
        columns = " | ".join(f"b in {share:.0%}" for share in SHARES)
        print(f"| vectors | measure | {columns} | all | p < 0.05 changed | unchanged |")
        print("|---|---|" + "---|" * (len(SHARES) + 3))
        for kind in THRESHOLDS:
            for name in MEASURES:
                both = [
                    [self.values[kind, name, s, changed] for s in SHARES]
                    for changed in (True, False)
                ]
                cells = [auc(a, b) for a, b in zip(*both, strict=True)]
                cells.append(auc(*(np.concatenate(values) for values in both)))
                p = [
                    100
                    * np.mean([x < 0.05 for s in SHARES for x in self.p[kind, name, s, changed]])
                    for changed in (True, False)
                ]
                shown = " | ".join(f"{x:.1f}" for x in [*cells, *p])
                print(f"| {kind} | {name.upper()} | {shown} |")


def main() -> None:
    """Make the pseudo-words and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, nargs="+", required=True)
    parser.add_argument("--after", type=Path, nargs="+", required=True)
    parser.add_argument("--tags", type=Path, required=True, help="CoNLL-U file")
    parser.add_argument("--model", default="relmo-en-small")
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--skip", type=int, default=0, help="pairs left out, to measure others")
    parser.add_argument("--places", type=int, default=100, help="of a word in each corpus")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    elmo = Elmo.from_pretrained(args.model)
    corpora = [Corpus(elmo, paths, args.seed) for paths in (args.before, args.after)]
    tags = parts_of_speech(args.tags)
    counts = [corpus.counts() for corpus in corpora]
    # more than are used: sentences that repeat are not
    most = args.skip + args.pairs
    pairs = choose_pairs(counts, tags, 3 * args.places // 2, most, args.seed)[args.skip :]
    words = [word for pair in pairs for word in pair]
    found = [corpus.places(words, args.places) for corpus in corpora]
    others = [expected_elsewhere(elmo, corpus.others) for corpus in corpora]
    shifts = align(others)  # (2, P)
    aligned = Whitening(np.concatenate([v + s for v, s in zip(others, shifts, strict=True)]))
    plain = Whitening(np.concatenate(others))
    scores, n = Scores(), args.places
    for pair in progress(pairs, len(pairs), "pairs measured", show=True):
        # a before, b before, a after, b after
        sets = [disguise(places[word], pair) for places in found for word in pair]
        flat = [place for own in sets for place in own]
        expected = read_states(elmo, flat, show=False).expected
        before = len(sets[0]) + len(sets[1])
        moved = normalize(expected + shifts[(np.arange(len(flat)) >= before).astype(int)])
        vectors_of = (expected, plain(expected), moved, aligned(moved))
        kinds = dict(zip(THRESHOLDS, vectors_of, strict=True))
        for share, changed, first, then in mixes():
            # rows of a and b in each corpus, so many of each that b has its share
            rows = [mix(sets[0:2], first, 0), mix(sets[2:4], then, before)]
            own = [flat[i] for part in rows for i in part]
            drawn = assignments(passages_of(own, len(rows[0])), len(rows[0]), 200)
            for kind, vectors in kinds.items():
                scores.add(kind, share, changed, [vectors[part] for part in rows], drawn)
    print(f"{len(pairs)} pairs, {n} places in each corpus, {elmo.config.name}; such as "
          + ", ".join("/".join(pair) for pair in pairs[:8]) + "\n")  # fmt: skip
    scores.table()


def mix(sets: Sequence[Sequence[Placed]], share: float, start: int) -> list[int]:
    """Rows of places of a and of b, which follow each other from `start` on, b with a share."""
    a, b = map(len, sets)
    of_b = round(share * min(a, b))
    return [
        start + i for i in (*range(min(a, b) - of_b), *range(a + min(a, b) - of_b, a + min(a, b)))
    ]


if __name__ == "__main__":
    main()
