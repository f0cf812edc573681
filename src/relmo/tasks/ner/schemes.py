"""Tags of chunks -> spans and back: IOB1, IOB2 and BIOES by conlleval's definition.

A tag is `O`, or one of B, I, E, S and a label: `B-PER`. BILOU's L and U are read as E and S. A
sequence means the same whichever scheme it was written in, and an ill-formed one has a meaning too:

- I or E goes on with the chunk of the tag before if that is a B or I of the same label;
- every other tag that is not O begins a chunk;
- a chunk ends where none goes on with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from relmo.errors import TextError

OUTSIDE = "O"
PREFIXES = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S"}
"""Letter before a label -> the letter of BIOES it stands for."""


@dataclass(frozen=True, slots=True)
class Span:
    """A chunk of a sentence, its first and its last word counted."""

    first: int
    last: int
    label: str


def spans_of(tags: Sequence[str]) -> list[Span]:
    """The chunks of one sentence, from left to right."""
    spans: list[Span] = []
    is_open = False  # whether the tag before is a B or I
    for place, tag in enumerate(tags):
        prefix, label = split_tag(tag)
        if prefix in ("I", "E") and is_open and spans[-1].label == label:
            spans[-1] = Span(spans[-1].first, place, label)
        elif prefix != OUTSIDE:
            spans.append(Span(place, place, label))
        is_open = prefix in ("B", "I")
    return spans


def to_bioes(tags: Sequence[str]) -> tuple[str, ...]:
    """The same chunks in BIOES, whatever scheme they came in."""
    found = [OUTSIDE] * len(tags)
    for span in spans_of(tags):
        prefixes = (
            "S" if span.first == span.last else "B" + "I" * (span.last - span.first - 1) + "E"
        )
        for place, prefix in enumerate(prefixes, start=span.first):
            found[place] = f"{prefix}-{span.label}" if span.label else prefix
    return tuple(found)


def split_tag(tag: str) -> tuple[str, str]:
    """(letter of BIOES or O, label) of a chunk tag; the label of a bare `B` is empty."""
    prefix, dash, label = tag.partition("-")
    if tag == OUTSIDE:
        return OUTSIDE, ""
    if prefix not in PREFIXES or (dash and not label):
        raise TextError(
            f"{tag!r} is no chunk tag; write O, or B-, I-, E- or S- and a label, or score the "
            f"words' tags by accuracy instead"
        )
    return PREFIXES[prefix], label


def is_chunked(tags: Iterable[str]) -> bool:
    """Whether a set of tags marks chunks: each can be split, and one at least is not O."""
    try:
        prefixes = {split_tag(tag)[0] for tag in tags}
    except TextError:
        return False
    return bool(prefixes - {OUTSIDE})


def stray_tags(counts: Mapping[str, int]) -> set[str]:
    """Tags that follow no scheme where most do: slips rather than tags of another kind.

    Tags follow one that have a letter and a label, `B-PER`: a bare letter may mean anything. They
    are most if the others are no more than they, by words or by different tags.

    Args:
        counts: tag -> words that have it.
    """
    labelled = {tag for tag in counts if "-" in tag and is_chunked([tag])}
    strays = {tag for tag in counts if tag != OUTSIDE and not is_chunked([tag])}
    words = sum(counts[tag] for tag in strays) - sum(counts[tag] for tag in labelled)
    are_most = bool(labelled) and (words <= 0 or len(strays) <= len(labelled))
    return strays if are_most else set()


def transitions_allowed(tags: Sequence[str]) -> NDArray[np.bool_]:
    """Which of K tags may follow which, (K + 2, K + 2): true at [before, after].

    Row K is the start of a sentence and column K + 1 its end; nothing leads to the start or on from
    the end. Tags without any E and S are taken for IOB2; bring IOB1 to BIOES first. Where the tags
    mark no chunks (parts of speech), all may follow each other.
    """
    K = len(tags)
    chunked = is_chunked(tags)
    parts = [split_tag(tag) if chunked else (OUTSIDE, "") for tag in tags]
    parts += 2 * [(OUTSIDE, "")]  # a sentence starts and ends as if O stood there
    ends_are_marked = any(prefix in ("E", "S") for prefix, _ in parts)
    allowed = np.array([[_follows(a, b, ends_are_marked) for b in parts] for a in parts])
    allowed[:, K] = allowed[K + 1] = False
    allowed[K, K + 1] = False  # no sentence is empty
    return allowed


def _follows(before: tuple[str, str], after: tuple[str, str], ends_are_marked: bool) -> bool:
    is_open = before[0] in ("B", "I")
    if after[0] in ("I", "E"):
        return is_open and before[1] == after[1]
    return not (is_open and ends_are_marked)
