"""How well `relmo senses` finds the senses that people annotated in SemCor.

    python scripts/measure_senses.py wsd --half test

Every lemma of SemCor (lemma and part of speech) with 30 places or more is clustered as the command
does it, 150 places at most. Half of the lemmas, by a hash of their names, chose everything (`--half
choose`); the other half is what is reported. Baselines: all places in one cluster, each in its own,
and the clusters found with their places shuffled. Scores are means over lemmas with two senses or
more, in percent; of the others the number of clusters is printed. Output is Markdown.

V-measure and paired F are those of SemEval-2010 task 14: the one favors many clusters, the other
few, so their geometric mean (of the two columns) stands beside them. The adjusted Rand index is 0
for chance. An instance of several senses has its first.
"""

from __future__ import annotations

import argparse
import hashlib
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from relmo import Elmo
from relmo.lab.probes.wsd import read_senses
from relmo.senses.places import (
    OTHER_LINES,
    Placed,
    Whitening,
    expected_elsewhere,
    read_states,
)
from relmo.senses.senses import sense_labels
from relmo.text.places import Place
from relmo.types import Vectors

LEAST, MOST = 30, 150
Numbers = NDArray[np.int64]
Lemma = tuple[str, str]


class Places:
    """The places of a lemma: where they are, and their annotated senses."""

    def __init__(self) -> None:
        self.placed: list[Placed] = []
        self.senses: list[str] = []

    def sample(self, count: int) -> Places:
        """An even sample of at most so many."""
        chosen = Places()
        for i in np.unique(np.linspace(0, len(self.placed) - 1, count).astype(int)).tolist():
            chosen.placed.append(self.placed[i])
            chosen.senses.append(self.senses[i])
        return chosen


def read_lemmas(folder: Path) -> tuple[dict[Lemma, Places], list[str]]:
    """The places of each lemma of SemCor, and all its sentences."""
    data = next(folder.rglob("semcor.data.xml"))
    sentences = read_senses(data, data.with_name("semcor.gold.key.txt"))
    found: dict[Lemma, Places] = defaultdict(Places)
    for sentence in sentences:
        for i in sentence.instances:
            place = Place(0, i.start, i.end - i.start, "", 0, 0)
            found[i.entry].placed.append(Placed(sentence.words, place))
            found[i.entry].senses.append(i.keys[0])
    often = {lemma: own for lemma, own in found.items() if len(own.placed) >= LEAST}
    return often, [" ".join(sentence.words) for sentence in sentences]


def is_test(lemma: Lemma) -> bool:
    """Whether a lemma is kept apart."""
    return int(hashlib.sha256("/".join(lemma).encode()).hexdigest(), 16) % 2 == 1


def scores(senses: Sequence[str] | Numbers, clusters: Numbers) -> NDArray[np.float64]:
    """V-measure, paired F, adjusted Rand index, B-cubed F and the number of clusters."""
    _, s = np.unique(senses, return_inverse=True)
    _, c = np.unique(clusters, return_inverse=True)
    table = np.zeros((s.max() + 1, c.max() + 1))
    np.add.at(table, (s, c), 1)
    n, by_sense, by_cluster = table.sum(), table.sum(1), table.sum(0)
    joint, h_sense, h_cluster = (entropy(x / n) for x in (table, by_sense, by_cluster))
    homogeneity = 1.0 if h_sense == 0 else 1 - (joint - h_cluster) / h_sense
    completeness = 1.0 if h_cluster == 0 else 1 - (joint - h_sense) / h_cluster
    right, gold, found = (float((x * (x - 1)).sum() / 2) for x in (table, by_sense, by_cluster))
    chance, mean = gold * found / (n * (n - 1) / 2), (gold + found) / 2
    rand = 1.0 if mean == chance else (right - chance) / (mean - chance)
    precision = float((table**2 / by_cluster).sum() / n)
    recall = float((table**2 / by_sense[:, None]).sum() / n)
    paired = harmonic(right / found, right / gold) if right else 0.0
    v = harmonic(homogeneity, completeness)
    return np.array([v, paired, rand, harmonic(precision, recall), len(by_cluster)])


def entropy(shares: NDArray[np.float64]) -> float:
    """In nats."""
    positive = shares[shares > 0]
    return float(-(positive * np.log(positive)).sum())


def harmonic(a: float, b: float) -> float:
    """The harmonic mean; 0 if both are."""
    return 2 * a * b / (a + b) if a + b > 1e-12 else 0.0


def print_row(name: str, found: Sequence[NDArray[np.float64]]) -> None:
    """The means over lemmas."""
    v, paired, rand, cubed, count = np.mean(found, 0)
    cells = [100 * x for x in (v, paired, (v * paired) ** 0.5, rand, cubed)]
    print(f"| {name} | " + " | ".join(f"{x:.1f}" for x in cells) + f" | {count:.1f} |", flush=True)


def report(
    lemmas: Mapping[Lemma, Places],
    vectors: Mapping[Lemma, Vectors],
    name: str,
    find: Callable[[Vectors], Numbers],
) -> None:
    """Print a way of clustering, beside the same clusters shuffled."""
    rng = np.random.default_rng(0)
    labels = {lemma: find(vectors[lemma]) for lemma in lemmas}
    many = [lemma for lemma, own in lemmas.items() if len(set(own.senses)) > 1]
    print_row(name, [scores(lemmas[e].senses, labels[e]) for e in many])
    shuffled = [scores(lemmas[e].senses, rng.permutation(labels[e])) for e in many]
    print_row(f"{name}, shuffled", shuffled)
    alone = [int(labels[e].max()) + 1 for e in lemmas if e not in set(many)]
    kinds = [len(set(lemmas[e].senses)) for e in many]
    alike = np.corrcoef(kinds, [labels[e].max() + 1 for e in many])[0, 1]
    one = np.mean(np.array(alone) == 1)
    print(
        f"<!-- {name}: lemmas with one sense have {np.mean(alone):.2f} clusters, {one:.0%} of them "
        f"one; number of clusters and of senses r = {alike:.2f} -->"
    )


def main() -> None:
    """Measure one half."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with SemCor in the unified format")
    parser.add_argument("--model", default="relmo-en-small")
    parser.add_argument("--half", choices=("choose", "test"), default="test")
    parser.add_argument("--lemmas", type=int, help="so many of the half's lemmas only")
    parser.add_argument("--thresholds", type=float, nargs="+", default=[None])
    args = parser.parse_args()
    found, sentences = read_lemmas(args.data)
    names = sorted(e for e in found if is_test(e) == (args.half == "test"))
    random.Random(0).shuffle(names)
    lemmas = {e: found[e].sample(MOST) for e in names[: args.lemmas]}
    elmo = Elmo.from_pretrained(args.model)
    states = read_states(elmo, [place for own in lemmas.values() for place in own.placed])
    others = random.Random(0).sample(sentences, OTHER_LINES)
    whiten = Whitening(expected_elsewhere(elmo, others))
    ends = np.cumsum([len(own.placed) for own in lemmas.values()])[:-1]
    split = lambda x: dict(zip(lemmas, np.split(x, ends), strict=True))  # noqa: E731
    print(
        "| clusters | V-measure | paired F | geometric mean | adjusted Rand | B-cubed F | number |"
    )
    print("|---|---|---|---|---|---|---|")
    many = [np.array(own.senses) for own in lemmas.values() if len(set(own.senses)) > 1]
    print_row("one for all", [scores(s, np.zeros(len(s), np.int64)) for s in many])
    print_row("one for each", [scores(s, np.arange(len(s))) for s in many])
    for threshold in args.thresholds:
        whitened = split(whiten(states.expected))
        report(
            lemmas,
            whitened,
            f"found, {threshold or 'default'}",
            lambda v, t=threshold: sense_labels(v, t),
        )
    print(
        f"<!-- {len(lemmas)} lemmas, {len(many)} of several senses, {sum(map(len, many))} places "
        f"of these, {np.mean([len(set(s)) for s in many]):.2f} senses each -->"
    )


if __name__ == "__main__":
    main()
