"""How well tags were predicted: entities by conlleval's definition, or tags one by one.

An entity counts as found if its first word, its last word and its label are all right. All numbers
are fractions of one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from relmo.errors import TextError
from relmo.tasks.ner.schemes import spans_of

Tags = Sequence[Sequence[str]]
"""The tags of each sentence."""


@dataclass(frozen=True, slots=True)
class Score:
    """Counts of entities, and the fractions that follow; 0 where there is nothing to divide by."""

    correct: int
    """Entities that are both there and predicted."""
    predicted: int
    wanted: int

    @property
    def precision(self) -> float:
        """Share of the predicted that are there."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of those there that were predicted."""
        return self.correct / self.wanted if self.wanted else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        both = self.predicted + self.wanted
        return 2 * self.correct / both if both else 0.0


@dataclass(frozen=True, slots=True)
class EntityScores:
    """Scores of all entities together and of each label, sorted."""

    overall: Score
    by_label: dict[str, Score]


def entity_scores(wanted: Tags, predicted: Tags) -> EntityScores:
    """Compare the entities of sentences; the two may be written in different schemes."""
    correct: Counter[str] = Counter()
    found: Counter[str] = Counter()
    there: Counter[str] = Counter()
    for gold, guess in _sentences(wanted, predicted):
        right, guessed = set(spans_of(gold)), set(spans_of(guess))
        correct.update(span.label for span in right & guessed)
        found.update(span.label for span in guessed)
        there.update(span.label for span in right)
    labels = sorted(found.keys() | there.keys())
    return EntityScores(
        Score(correct.total(), found.total(), there.total()),
        {label: Score(correct[label], found[label], there[label]) for label in labels},
    )


def token_accuracy(wanted: Tags, predicted: Tags) -> float:
    """Share of all words whose tag is right; 0 where there is no word."""
    pairs = list(_sentences(wanted, predicted))
    return accuracy(
        [tag for gold, _ in pairs for tag in gold], [tag for _, guess in pairs for tag in guess]
    )


def accuracy(wanted: Sequence[str], predicted: Sequence[str]) -> float:
    """Share of labels that are right; 0 where there is none."""
    check_lengths(len(wanted), len(predicted), "labels")
    right = sum(gold == guess for gold, guess in zip(wanted, predicted, strict=True))
    return right / len(wanted) if wanted else 0.0


def check_lengths(wanted: int, predicted: int, what: str) -> None:
    """Raise TextError unless each of the things has a prediction."""
    if wanted != predicted:
        raise TextError(f"{predicted} predicted {what}, but {wanted} wanted; give one for each")


def _sentences(wanted: Tags, predicted: Tags) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    check_lengths(len(wanted), len(predicted), "sentences")
    for number, (gold, guess) in enumerate(zip(wanted, predicted, strict=True), start=1):
        check_lengths(len(gold), len(guess), f"tags in sentence {number}")
        yield gold, guess
