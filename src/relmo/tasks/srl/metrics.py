"""F1 of arguments by the definition of CoNLL-2005: label and extent must both be right.

The predicate itself (V) does not count. A C-X goes on with the latest X before it: both are one
argument X, right only if all its pieces are; without an X before it, it is an X of its own. R-X is
a label like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Span: TypeAlias = tuple[str, int, int]
"""Label, first word, last word."""
Argument: TypeAlias = tuple[str, tuple[tuple[int, int], ...]]
"""Label, and first and last word of each piece."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many arguments are right, were predicted and are true; the rest follows, in percent."""

    right: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        """Share of predicted arguments that are right; 0 where there are none."""
        return 100 * self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of true arguments that were found; 0 where there are none."""
        return 100 * self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of both."""
        return 200 * self.right / (self.predicted + self.gold) if self.right else 0.0


@dataclass(frozen=True, slots=True)
class SrlScore:
    """Counts of all arguments, and of those of each label."""

    overall: Counts
    labels: dict[str, Counts]
    num_frames: int
    num_perfect: int
    """Frames whose arguments are all right, with none too many."""


def evaluate(gold: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> SrlScore:
    """Score predicted tags of frames against true ones, frame by frame in the same order."""
    right, ours, theirs = Counter[str](), Counter[str](), Counter[str]()
    num_frames = num_perfect = 0
    for true_tags, tags in zip(gold, predicted, strict=True):
        assert len(true_tags) == len(tags), "a frame has one tag per word"
        wanted, found = arguments(true_tags), arguments(tags)
        right.update(label for label, _ in wanted & found)
        ours.update(label for label, _ in found)
        theirs.update(label for label, _ in wanted)
        num_frames, num_perfect = num_frames + 1, num_perfect + (wanted == found)
    labels = {name: Counts(right[name], ours[name], theirs[name]) for name in sorted(ours | theirs)}
    overall = Counts(right.total(), ours.total(), theirs.total())
    return SrlScore(overall, labels, num_frames, num_perfect)


def arguments(tags: Sequence[str]) -> frozenset[Argument]:
    """The arguments of a frame that count, continued ones joined."""
    found: list[Argument] = []
    latest: dict[str, int] = {}
    for label, first, last in bio_spans(tags):
        name = label.removeprefix("C-")
        if name != label and name in latest:
            found[latest[name]] = (name, (*found[latest[name]][1], (first, last)))
        else:
            latest[name] = len(found)
            found.append((name, ((first, last),)))
    return frozenset(argument for argument in found if argument[0] != "V")


def bio_spans(tags: Sequence[str]) -> list[Span]:
    """The spans of a tag sequence, in order; an I-X that continues no X begins one."""
    spans: list[Span] = []
    label, first = "", 0
    for position, tag in enumerate((*tags, "O")):
        if label and tag != f"I-{label}":
            spans.append((label, first, position - 1))
            label = ""
        if not label and tag != "O":
            label, first = tag[2:], position
    return spans
