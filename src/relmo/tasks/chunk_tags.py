"""Tags that mark spans of words: IOB1, IOB2 and BIOES by conlleval's definition.

A chunk tag is `O`, or one of B, I, E, S and a label: `B-PER`. BILOU's L and U are read as E and S.
A sequence means the same whichever scheme it was written in, and an ill-formed one has a meaning
too:

- I or E continues the span of the previous tag if that is a B or I of the same label;
- every other tag except O begins a span;
- a span ends where no tag continues it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from relmo.errors import TextError

OUTSIDE = "O"
PREFIXES = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S"}
"""Prefix of a tag -> its equivalent in BIOES."""
MAX_TAGS = 5000
"""Different tags; memory grows with the square of their number. Rich morphology has about 2,000."""
CHUNK_TAG_HELP = "use O, or B-, I-, E- or S- followed by a label"

Tags = tuple[str, ...]


class LabelledSpan(NamedTuple):
    """A labeled span of a sentence; `last` is its last word, not the one after it."""

    first: int
    last: int
    label: str


def spans_of(tags: Sequence[str]) -> list[LabelledSpan]:
    """The spans of one sentence, from left to right."""
    spans: list[LabelledSpan] = []
    is_open = False  # whether the previous tag is a B or I
    for place, tag in enumerate(tags):
        prefix, label = split_tag(tag)
        if prefix in ("I", "E") and is_open and spans[-1].label == label:
            spans[-1] = LabelledSpan(spans[-1].first, place, label)
        elif prefix != OUTSIDE:
            spans.append(LabelledSpan(place, place, label))
        is_open = prefix in ("B", "I")
    return spans


def to_bioes(tags: Sequence[str]) -> Tags:
    """The same spans in BIOES, whatever scheme the tags follow."""
    found = [OUTSIDE] * len(tags)
    for span in spans_of(tags):
        inner = span.last - span.first - 1
        prefixes = "S" if inner < 0 else "B" + "I" * inner + "E"
        for place, prefix in enumerate(prefixes, start=span.first):
            found[place] = f"{prefix}-{span.label}" if span.label else prefix
    return tuple(found)


def without_labels(tags: Sequence[str], labels: Collection[str]) -> Tags:
    """The tags, with O in place of those that mark spans with one of these labels."""
    return tuple(OUTSIDE if split_tag(tag)[1] in labels else tag for tag in tags)


def split_tag(tag: str) -> tuple[str, str]:
    """(prefix in BIOES or O, label) of a chunk tag; the label of a bare `B` is empty."""
    prefix, dash, label = tag.partition("-")
    if tag == OUTSIDE:
        return OUTSIDE, ""
    if prefix not in PREFIXES or (dash and not label):
        raise TextError(
            f"{tag!r} is not a chunk tag; {CHUNK_TAG_HELP}, or measure the tags by accuracy"
        )
    return PREFIXES[prefix], label


def is_chunked(tags: Iterable[str]) -> bool:
    """Whether a set of tags marks spans: all are chunk tags, and at least one is not O."""
    try:
        prefixes = {split_tag(tag)[0] for tag in tags}
    except TextError:
        return False
    return bool(prefixes - {OUTSIDE})


def stray_tags(counts: Mapping[str, int]) -> set[str]:
    """Tags that are not chunk tags where most are: typing errors rather than another tag set.

    Only tags with a prefix and a label, `B-PER`, count as chunk tags: a bare letter may mean
    anything. They are most if the others are not more numerous, by words (the counts of each tag)
    or by distinct tags.
    """
    labelled = {tag for tag in counts if "-" in tag and is_chunked([tag])}
    strays = {tag for tag in counts if tag != OUTSIDE and not is_chunked([tag])}
    words = sum(counts[tag] for tag in strays) - sum(counts[tag] for tag in labelled)
    are_most = bool(labelled) and (words <= 0 or len(strays) <= len(labelled))
    return strays if are_most else set()


def transitions_allowed(tags: Sequence[str]) -> NDArray[np.bool_]:
    """Which of K tags may follow which, (K + 2, K + 2): true at [before, after].

    Row K is the start of a sentence and column K + 1 its end; nothing leads to the start or on from
    the end. Tags without any E and S are taken for IOB2; convert IOB1 to BIOES first. Where the
    tags mark no spans (parts of speech), all may follow each other.
    """
    if (K := len(tags)) > MAX_TAGS:
        what = f"expected at most {MAX_TAGS:,} different tags, got {K:,}"
        raise TextError(f"{what}; is this the column of the tags, and is each one written alike?")
    chunked = is_chunked(tags)
    parts = [split_tag(tag) if chunked else (OUTSIDE, "") for tag in tags]
    parts += 2 * [(OUTSIDE, "")]  # a sentence starts and ends as if next to an O
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
