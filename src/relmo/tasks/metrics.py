"""How well labels were predicted: accuracy, and precision, recall and F1 of labeled items.

All numbers are fractions of one; 0 where there is nothing to divide by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, TypeVar

from relmo.errors import TextError
from relmo.tasks.chunk_tags import spans_of

Item = TypeVar("Item")
TagSequences = Sequence[Sequence[str]]
"""The tags of each sentence."""


class MatchCounts(NamedTuple):
    """How many items are correct, were predicted and are in the gold data."""

    correct: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        """Share of the predicted items that are correct."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of the gold items that were predicted."""
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        both = self.predicted + self.gold
        return 2 * self.correct / both if both else 0.0

    def percent(self) -> dict[str, float]:
        """F1, precision and recall in percent."""
        return {name: 100 * getattr(self, name) for name in ("f1", "precision", "recall")}


class MatchScores(NamedTuple):
    """Counts of all items together and of each label, sorted."""

    overall: MatchCounts
    by_label: dict[str, MatchCounts]

    @property
    def macro_f1(self) -> float:
        """The mean F1 of all labels that are gold or predicted, each with the same weight."""
        scores = [counts.f1 for counts in self.by_label.values()]
        return sum(scores) / len(scores) if scores else 0.0


def count_matches(
    pairs: Iterable[tuple[AbstractSet[Item], AbstractSet[Item]]], label_of: Callable[[Item], str]
) -> MatchScores:
    """Count the items that gold and predicted sets have in common, pair by pair."""
    correct, predicted, gold = Counter[str](), Counter[str](), Counter[str]()
    for wanted, found in pairs:
        correct.update(map(label_of, wanted & found))
        predicted.update(map(label_of, found))
        gold.update(map(label_of, wanted))
    return MatchScores(
        MatchCounts(correct.total(), predicted.total(), gold.total()),
        {x: MatchCounts(correct[x], predicted[x], gold[x]) for x in sorted(predicted | gold)},
    )


def accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Share of labels that are correct."""
    check_lengths(len(gold), len(predicted), "labels")
    correct = sum(wanted == found for wanted, found in zip(gold, predicted, strict=True))
    return correct / len(gold) if gold else 0.0


def macro_f1(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """The mean F1 of all labels that are gold or predicted, each with the same weight."""
    check_lengths(len(gold), len(predicted), "labels")
    pairs = (({wanted}, {found}) for wanted, found in zip(gold, predicted, strict=True))
    return count_matches(pairs, str).macro_f1


def label_set_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> MatchScores:
    """Compare the labels of examples that have any number of them, in any order."""
    check_lengths(len(gold), len(predicted), "sets of labels")
    pairs = ((set(wanted), set(found)) for wanted, found in zip(gold, predicted, strict=True))
    return count_matches(pairs, str)


def token_accuracy(gold: TagSequences, predicted: TagSequences) -> float:
    """Share of all words whose tag is correct."""
    pairs = list(_sentence_pairs(gold, predicted))
    return accuracy([tag for tags, _ in pairs for tag in tags], [t for _, ts in pairs for t in ts])


def entity_scores(gold: TagSequences, predicted: TagSequences) -> MatchScores:
    """Compare entities by conlleval's definition: first word, last word and label must be right.

    Gold and predicted tags may follow different schemes.
    """
    pairs = _sentence_pairs(gold, predicted)
    spans = ((set(spans_of(wanted)), set(spans_of(found))) for wanted, found in pairs)
    return count_matches(spans, lambda span: span.label)


def check_lengths(gold: int, predicted: int, what: str) -> None:
    """Raise TextError unless there are as many predictions as gold labels."""
    if gold != predicted:
        raise TextError(f"expected {gold} predicted {what}, one for each, got {predicted}")


def _sentence_pairs(
    gold: TagSequences, predicted: TagSequences
) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    check_lengths(len(gold), len(predicted), "sentences")
    for number, (wanted, found) in enumerate(zip(gold, predicted, strict=True), start=1):
        check_lengths(len(wanted), len(found), f"tags in sentence {number}")
        yield wanted, found
