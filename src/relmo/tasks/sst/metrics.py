"""How well labels of texts were predicted. All numbers are fractions of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from relmo.tasks.ner.metrics import Score, accuracy, check_lengths
from relmo.tasks.sst.data import side_of

__all__ = ["accuracy", "binary_accuracy", "macro_f1"]


def macro_f1(wanted: Sequence[str], predicted: Sequence[str]) -> float:
    """The mean of the labels' F1, each label that is wanted or predicted counting the same."""
    check_lengths(len(wanted), len(predicted), "labels")
    right = Counter(gold for gold, guess in zip(wanted, predicted, strict=True) if gold == guess)
    there, found = Counter(wanted), Counter(predicted)
    scores = [Score(right[x], found[x], there[x]).f1 for x in there.keys() | found.keys()]
    return sum(scores) / len(scores) if scores else 0.0


def binary_accuracy(wanted: Sequence[str], predicted: Sequence[str]) -> float:
    """Share of sentence labels 0 to 4 whose side is right, neutral sentences left out.

    A neutral prediction for a sentence that is not neutral counts as wrong.
    """
    check_lengths(len(wanted), len(predicted), "labels")
    pairs = [(side_of(a), side_of(b)) for a, b in zip(wanted, predicted, strict=True)]
    sides = [gold == guess for gold, guess in pairs if gold is not None]
    return sum(sides) / len(sides) if sides else 0.0
