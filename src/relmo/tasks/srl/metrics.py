"""F1 of arguments by the definition of CoNLL-2005: label and extent must both be right.

The predicate itself (V) does not count. A C-X continues the latest X before it: both are one
argument X, correct only if all its pieces are; without an X before it, it is an X of its own. R-X
is a label like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from relmo.tasks.chunk_tags import spans_of
from relmo.tasks.metrics import MatchScores, count_matches

Argument = tuple[str, tuple[tuple[int, int], ...]]
"""Label, and first and last word of each piece."""


@dataclass(frozen=True, slots=True)
class SrlScore:
    """Counts of arguments and of frames."""

    arguments: MatchScores
    num_frames: int
    num_perfect: int
    """Frames whose predicted arguments are exactly the gold ones."""


def evaluate(gold: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> SrlScore:
    """Score predicted tags of frames against gold tags, frame by frame in the same order."""
    pairs = []
    for gold_tags, tags in zip(gold, predicted, strict=True):
        assert len(gold_tags) == len(tags), "a frame has one tag per word"
        pairs.append((arguments(gold_tags), arguments(tags)))
    num_perfect = sum(wanted == found for wanted, found in pairs)
    return SrlScore(count_matches(pairs, lambda argument: argument[0]), len(pairs), num_perfect)


def arguments(tags: Sequence[str]) -> frozenset[Argument]:
    """The arguments of a frame that count, with their continuations."""
    found: list[Argument] = []
    latest: dict[str, int] = {}
    for span in spans_of(tags):
        label, piece = span.label.removeprefix("C-"), (span.first, span.last)
        if label != span.label and label in latest:
            found[latest[label]] = (label, (*found[latest[label]][1], piece))
        else:
            latest[label] = len(found)
            found.append((label, (piece,)))
    return frozenset(argument for argument in found if argument[0] != "V")
