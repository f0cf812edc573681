"""How a word's use changes from one corpus to another, each measure with a permutation test.

    for change in find_changes(elmo, ["gay", "cell"], ["1900.txt"], ["2000.txt"]).changes:
        print(change.word, change.prt.value, change.prt.p)

    apd     average pairwise distance: 1 - cosine, over all pairs of a place before and one after
    prt     cosine distance between the mean vector before and the mean vector after
    jsd     Jensen-Shannon divergence (base 2: 0 to 1) between the shares of senses, where the
            places of both are clustered together

A p-value is the share of random assignments of the same places to before and after that have the
measure at least as high; the real one counts, so it is never 0. Places of one passage (see
`Corpus.places`) are assigned together: they are about the same things, so they are fewer than they
seem. Where p could not be 0.05 or lower, with so few passages or assignments, it is None.

Vectors of places are those of `relmo.senses.places`, whitened for the clusters, but not for
distances, which a mean near zero would exaggerate. Corpora of two kinds of text differ everywhere:
they can be aligned, so that places of other words have the same mean in both.

Shapes: N places of a word, before and after; K senses; P width; R assignments.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from relmo.elmo import Elmo
from relmo.progress import progress
from relmo.runtime.pooling import normalize
from relmo.senses.clusters import Labels
from relmo.senses.places import (
    Corpus,
    Placed,
    Source,
    States,
    TooFewPlaces,
    Use,
    Whitening,
    align,
    expected_elsewhere,
    read_states,
)
from relmo.senses.senses import best_substitutes, check_threshold, sense_labels
from relmo.text.places import Place
from relmo.types import Vectors

MEASURES = ("apd", "prt", "jsd")
FIELDS = (
    *("word", "before", "after", "apd", "apd_p", "prt", "prt_p", "jsd", "jsd_p", "senses"),
    *("passages_before", "passages_after"),
)
"""Columns of a file of changes."""
COMMON_SHARE = 0.0005
"""Of the model's training text: a vocabulary of frequent words is without those above it."""
HIGHEST_P = 0.05
"""Where the lowest p that is possible is higher, none is given."""
LEAST_PLACES = 5
"""Of a word in each corpus."""
MOST_PLACES = 200
Assignments = NDArray[np.bool_]
"""(R, N) which places are before; the first row is the real one."""


class Measured(NamedTuple):
    """A measure of change."""

    value: float
    p: float | None
    """Of the permutation test; None if it could not be 0.05 or lower."""


class WordChange(NamedTuple):
    """How a word's use differs between two corpora."""

    word: str
    before: int
    after: int
    """Places in each that are compared."""
    apd: Measured
    prt: Measured
    jsd: Measured
    senses: list[dict[str, Any]]
    """Of both together: share before, share after, substitutes."""
    vectors: Vectors
    """(N, P) of all places, those before first."""
    labels: Labels
    """(N,) the sense of each."""
    places: list[Place]
    """N."""
    passages: tuple[int, int]
    """Of these places, before and after."""
    permutations: int

    @property
    def remark(self) -> str | None:
        """Why there are no p-values, if there are none."""
        if self.prt.p is not None:
            return None
        if 1 / (1 + self.permutations) > HIGHEST_P:
            return f"no p-values: {self.permutations} permutations cannot give p ≤ {HIGHEST_P}"
        few = " and ".join(f"{n} passage{'s' * (n > 1)}" for n in self.passages)
        return (
            f"no p-values: the places are in {few} before and after, too few for p ≤ {HIGHEST_P}; "
            "give more text (blank lines part passages)"
        )

    def row(self) -> tuple[Any, ...]:
        """FIELDS."""
        measured = (x for m in (self.apd, self.prt, self.jsd) for x in m)
        return (self.word, self.before, self.after, *measured, len(self.senses), *self.passages)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the vectors as JSON."""
        rounded = (round(x, 6) if isinstance(x, float) else x for x in self.row())
        found = dict(zip(FIELDS, rounded, strict=True))
        return {**found, "senses": self.senses, "remark": self.remark}


class Changes(NamedTuple):
    """Words, the most changed first, and those that are too rare to say."""

    changes: list[WordChange]
    rare: list[str]
    permutations: int
    seed: int
    """Of the samples and permutations."""

    @property
    def remarks(self) -> Iterator[str]:
        """Each remark, and the words that have it."""
        words = defaultdict(list)
        for change in self.changes:
            if change.remark is not None:
                words[change.remark].append(change.word)
        return (f"{first_few(own)}: {remark}" for remark, own in words.items())

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON."""
        words = [change.to_dict() for change in self.changes]
        drawn = {"permutations": self.permutations, "seed": self.seed}
        return {"words": words, "rare": self.rare, **drawn}

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """FIELDS of each word."""
        return (change.row() for change in self.changes)

    def table(self) -> Table:
        """A row per word."""
        measures = (f"{name.upper()} (p)" for name in MEASURES)
        table = Table("word", "places", "passages", *measures, "senses")
        for c in self.changes:
            shown = (
                f"{m.value:.3f}" + ("" if m.p is None else f" ({m.p:.3f})")
                for m in (c.apd, c.prt, c.jsd)
            )
            counts = (f"{a:,} / {b:,}" for a, b in ((c.before, c.after), c.passages))
            table.add_row(c.word, *counts, *shown, str(len(c.senses)))
        return table


def first_few(words: Sequence[str]) -> str:
    """The first five."""
    return ", ".join(words[:5]) + (" …" if len(words) > 5 else "")


def find_changes(
    elmo: Elmo,
    words: Sequence[str],
    before: Source,
    after: Source,
    *,
    vocabulary: int = 0,
    common: bool = False,
    aligned: bool = False,
    most: int = MOST_PLACES,
    permutations: int = 1000,
    threshold: float | None = None,
    seed: int = 0,
    use: Use | None = None,
) -> Changes:
    """Measure how the use of words changes between two corpora, the most changed first (by PRT).

    Args:
        elmo: the model.
        words: to compare, in any case.
        before: text files or folders, or `Pasted(text)`.
        after: likewise.
        vocabulary: compare so many of the words that are most frequent in both, too.
        common: among these also such as "the", above COMMON_SHARE of the model's training text.
        aligned: shift vectors so that the two corpora have one mean, for two kinds of text.
        most: places used at most per word and corpus, an even sample of all.
        permutations: assignments drawn for the p-values; fewer than 19 give none.
        threshold: of `find_senses`.
        seed: of the samples and assignments.
        use: of `find_senses`.
    """
    check_threshold(threshold)
    show = use is None
    corpora = [Corpus(elmo, source, seed, show) for source in (before, after)]
    left_out = frozenset[str]() if common or not vocabulary else common_words(elmo)
    named = [*words, *shared_words(corpora, vocabulary, left_out)]
    wanted = list({word.casefold(): word for word in reversed(named)}.values())[::-1]
    found = [corpus.places(wanted, most) for corpus in corpora]
    rare = [w for w in wanted if min(len(places[w]) for places in found) < LEAST_PLACES]
    if len(rare) == len(wanted):
        which = repr(rare[0]) if len(rare) == 1 else f"each of the {len(rare)} words"
        counts = [max((len(places[w]) for w in rare), default=0) for places in found]
        raise TooFewPlaces(
            f"{which} is in the two corpora {counts[0]} and {counts[1]} times at most; at least "
            f"{LEAST_PLACES} places in each are needed: check the form, or give more text",
            counts,
        )
    kept = [word for word in wanted if word not in set(rare)]
    placed: list[Placed] = [p for word in kept for places in found for p in places[word]]
    states = read_states(elmo, placed, show, use)
    others = [expected_elsewhere(elmo, corpus.others, use) for corpus in corpora]
    shifts = align(others) * aligned  # (2, P)
    of = [n for word in kept for n, places in enumerate(found) for _ in places[word]]  # (N,)
    whiten = Whitening(np.concatenate([v + shift for v, shift in zip(others, shifts, strict=True)]))
    vectors, at, changes = normalize(states.expected + shifts[of]), 0, []
    for word in progress(kept, len(kept), "words compared", show):
        sizes = [len(places[word]) for places in found]
        rows = slice(at, at := at + sum(sizes))
        own = States(*(side[rows] for side in states))
        labels = sense_labels(whiten(vectors[rows]), threshold)
        passages = passages_of(placed[rows], sizes[0])
        drawn = assignments(passages, sizes[0], permutations, seed)
        measured = measure(vectors[rows], labels, drawn)
        senses = shares_of(labels, sizes[0])
        shown = best_substitutes(elmo, word, own, labels, 5, use)
        for sense, best in zip(senses, shown, strict=True):
            sense["substitutes"] = best
        places = [each.place for each in placed[rows]]
        one, other = (len(np.unique(part)) for part in np.split(passages, sizes[:1]))
        found_in = (one, other)
        changes.append(
            WordChange(
                word,
                sizes[0],
                sizes[1],
                *measured,
                senses,
                vectors[rows],
                labels,
                places,
                found_in,
                permutations,
            )
        )
    ranked = sorted(changes, key=lambda change: -change.prt.value)
    return Changes(ranked, rare, permutations, seed)


def shared_words(
    corpora: Sequence[Corpus], count: int, left_out: Collection[str] = ()
) -> list[str]:
    """The words most frequent in all corpora, by the smallest of their counts in any case.

    Each is in its most frequent form; those left out are given in lower case (`casefold`).
    """
    if not count:
        return []
    counted = [corpus.counts() for corpus in corpora]
    forms = sum(counted, Counter[str]())
    form_of = {word.casefold(): word for word, _ in reversed(forms.most_common())}
    folded = [Counter[str]() for _ in counted]
    for counts, own in zip(counted, folded, strict=True):
        for word, n in counts.items():
            own[word.casefold()] += n
    least = {word: min(own[word] for own in folded) for word in form_of}
    often = [w for w, n in least.items() if n >= LEAST_PLACES and w not in left_out]
    return [form_of[word] for word in sorted(often, key=lambda w: (-least[w], w))[:count]]


def common_words(elmo: Elmo) -> frozenset[str]:
    """Words that are in any text, by the model's training text; none without counts of it."""
    if elmo.lexicon is None or elmo.lexicon.counts is None:
        return frozenset()
    counts = Counter[str]()
    for word, n in zip(elmo.lexicon.words, elmo.lexicon.counts.tolist(), strict=True):
        counts[word.casefold()] += n
    return frozenset(w for w, n in counts.items() if n > COMMON_SHARE * counts.total())


def shares_of(labels: Labels, before: int) -> list[dict[str, Any]]:
    """The share of each sense before and after."""
    K = labels.max() + 1
    shares = [np.bincount(part, minlength=K) / len(part) for part in np.split(labels, [before])]
    return [
        {"before": round(float(a), 4), "after": round(float(b), 4)}
        for a, b in zip(*shares, strict=True)
    ]


def passages_of(placed: Sequence[Placed], before: int) -> Labels:
    """The passage of each place (N,), those of the two corpora apart."""
    return np.array([2 * each.passage + (i < before) for i, each in enumerate(placed)], np.int64)


def measure(
    vectors: Vectors, labels: Labels, drawn: Assignments
) -> tuple[Measured, Measured, Measured]:
    """APD, PRT and JSD of vectors (N, P) in clusters (N,), by `assignments`."""
    # the real assignment, and the same with before and after exchanged, reach the real value
    lowest = ((drawn == drawn[0]).all(1) | (drawn != drawn[0]).all(1)).mean()
    values = (apd(vectors, drawn), prt(vectors, drawn), jsd(labels, drawn))
    return tuple(  # type: ignore[return-value]
        Measured(float(v[0]), p_value(v) if lowest <= HIGHEST_P else None) for v in values
    )


def assignments(passages: Labels, before: int, permutations: int, seed: int = 0) -> Assignments:
    """The real assignment of places, then random ones of about the same sizes, whole passages each.

    Args:
        passages: (N,) of each place; if all differ, the sizes are exactly the same.
        before: how many are before, the first ones.
        permutations: R - 1.
        seed: of the random ones.
    """
    _, number, sizes = np.unique(passages, return_inverse=True, return_counts=True)
    rng, drawn = np.random.default_rng(seed), [np.arange(len(passages)) < before]
    for _ in range(permutations):
        order = rng.permutation(len(sizes))
        middles = np.cumsum(sizes[order]) - sizes[order] / 2
        is_before = np.zeros(len(sizes), np.bool_)
        is_before[order] = middles < before
        is_before[order[0]], is_before[order[-1]] = True, len(order) == 1  # none is empty
        drawn.append(is_before[number])
    return np.stack(drawn)


def p_value(values: NDArray[np.float64]) -> float:
    """(1 + how many of R random values reach the real one, the first) / (1 + R)."""
    return float((values >= values[0] - 1e-9).mean())


def apd(vectors: Vectors, drawn: Assignments) -> NDArray[np.float64]:
    """Average pairwise distance, (R,)."""
    is_before, is_after = drawn.astype(np.float64), (~drawn).astype(np.float64)
    cosines = (vectors @ vectors.T).astype(np.float64)
    totals = ((is_before @ cosines) * is_after).sum(1)
    return np.asarray(1 - totals / (is_before.sum(1) * is_after.sum(1)))


def prt(vectors: Vectors, drawn: Assignments) -> NDArray[np.float64]:
    """Cosine distance of the means, (R,)."""
    one, other = (normalize(part.astype(np.float32) @ vectors) for part in (drawn, ~drawn))
    return np.asarray(np.maximum(1 - (one * other).sum(1, dtype=np.float64), 0))


def jsd(labels: Labels, drawn: Assignments) -> NDArray[np.float64]:
    """Jensen-Shannon divergence of the clusters' shares, in bits, (R,)."""
    is_in = np.eye(labels.max() + 1)[labels]  # (N, K)
    one, other = (part @ is_in / part.sum(1, keepdims=True) for part in (drawn, ~drawn))  # (R, K)
    return np.maximum(_entropy((one + other) / 2) - (_entropy(one) + _entropy(other)) / 2, 0)


def _entropy(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """In bits, (R, K) -> (R,)."""
    logs = np.log2(shares, where=shares > 0, out=np.zeros_like(shares))
    return np.asarray(-(shares * logs).sum(-1))
