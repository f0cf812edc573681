"""Where a trained model is wrong: the errors of labelled examples, counted and chosen for people.

    errors = task.errors(examples)
    errors[0]      # TaskError(kind="wrong label", gold="[ORG Oslo]", predicted="[LOC Oslo]", …)
    summary(errors, task.label_counts(examples), most=20)

What an error is, a task decides (`LabelledTask.errors_of`); tasks that mark pieces of a text share
`span_errors`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import chain, zip_longest
from typing import Any

from relmo.tasks.results import Span, to_json

WRONG = "wrong"
"""Kind of an error where one label was given for another: of a text, or of a word."""
MISSED, SPURIOUS = "missed", "spurious"
WRONG_LABEL, WRONG_EXTENT = "wrong label", "wrong extent"
MAX_TABLE = 12
"""Labels of the largest table of confusions; more would not fit on a screen."""
CONTEXT = 40
"""Characters shown to the left and to the right of an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskError:
    """One wrong answer, or one that is missing."""

    example: int = 0
    """Number of the example in its file, from 1."""
    kind: str = WRONG
    label: str = ""
    """The gold label, or the predicted one of what is spurious; "" where there are none."""
    gold: str
    """The right answer as people read it: a label, `[ORG Oslo]`, a text; "" if there is none."""
    predicted: str
    """The model's answer, likewise."""
    score: float | None = None
    """The model's probability of its answer; None without an answer or scores."""
    text: str
    start: int = 0
    end: int = 0
    """`text[start:end]` is where the error is; empty if it is about the whole text."""

    def in_context(self, width: int = CONTEXT) -> str:
        """The text around the error, which is in brackets."""
        text, start, end = self.text, self.start, self.end
        first, past = max(0, start - width), end + width
        shown = f"{text[first:start]}[{text[start:end]}]{text[end:past]}"
        if start == end:
            past = 3 * width
            shown = text[:past]
        return f"{'…' if first else ''}{shown}{'…' if past < len(text) else ''}"


FIELDS = tuple(field.name for field in fields(TaskError))
"""Columns of a table of errors."""


def table_rows(errors: Iterable[TaskError]) -> list[tuple[Any, ...]]:
    """Errors as rows with the columns FIELDS."""
    return [astuple(error) for error in errors]


# ── labeled pieces of a text ────────────────────────────────────────────────────────────────────


def span_errors(text: str, gold: Iterable[Span], found: Mapping[Span, float]) -> list[TaskError]:
    """How predicted spans, with their scores, differ from the gold ones, in the order of the text.

    A predicted span that overlaps with a gold one is that one with a wrong label, whatever its
    extent, or with a wrong extent. Each is paired at most once, equal extents and labels first.
    """
    wanted = set(gold)
    missed, extra = sorted(wanted - found.keys()), sorted(found.keys() - wanted)
    pairs = [(g, p) for g in missed for p in extra if _overlap(g, p) > 0]
    pairs.sort(key=lambda pair: (pair[0][1:] != pair[1][1:], pair[0][0] != pair[1][0],
                                 -_overlap(*pair)))  # fmt: skip
    errors, paired = [], set[tuple[bool, Span]]()
    for wants, has in pairs:
        if not paired & {(True, wants), (False, has)}:
            paired |= {(True, wants), (False, has)}
            errors.append(_span_error(text, wants, has, found))
    errors += [_span_error(text, g, None, found) for g in missed if (True, g) not in paired]
    errors += [_span_error(text, None, p, found) for p in extra if (False, p) not in paired]
    return sorted(errors, key=lambda error: (error.start, error.end))


def _span_error(
    text: str, gold: Span | None, predicted: Span | None, scores: Mapping[Span, float]
) -> TaskError:
    there = [span for span in (gold, predicted) if span is not None]
    kind = MISSED if predicted is None else SPURIOUS
    if gold is not None and predicted is not None:
        kind = WRONG_EXTENT if gold[0] == predicted[0] else WRONG_LABEL
    shown = ["" if s is None else f"[{s[0]} {text[s[1] : s[2]]}]" for s in (gold, predicted)]
    return TaskError(
        kind=kind,
        label=there[0][0],
        gold=shown[0],
        predicted=shown[1],
        score=None if predicted is None else scores[predicted],
        text=text,
        start=min(start for _, start, _ in there),
        end=max(end for _, _, end in there),
    )


def _overlap(one: Span, other: Span) -> int:
    """Characters that two spans share."""
    return min(one[2], other[2]) - max(one[1], other[1])


# ── labels ──────────────────────────────────────────────────────────────────────────────────────


def remarks(
    gold: Mapping[str, int], known: Collection[str], uncounted: Collection[str]
) -> list[str]:
    """What people must know of scores on labelled data whose labels a model cannot give.

    Args:
        gold: how often each label is the right one.
        known: the model's labels; empty where a task has none.
        uncounted: those that the model's scores leave out.
    """
    found = []
    if left_out := {label: gold[label] for label in uncounted if gold.get(label)}:
        counts = ", ".join(f"{label} ({count:,})" for label, count in left_out.items())
        found.append(f"labels that this model's scores leave out: {counts}")
    if known and (strange := sorted(gold.keys() - set(known) - {""})):
        count, total = sum(gold[label] for label in strange), sum(gold.values())
        found.append(
            f"{count:,} of {total:,} labels are none of the model's, each of which counts as an "
            f"error: {_first(strange)}; the model knows {_first(sorted(known))}"
        )
    return found


def _first(labels: Sequence[str], most: int = 5) -> str:
    return ", ".join([*labels[:most], *(["…"] if len(labels) > most else [])])


# ── summaries ───────────────────────────────────────────────────────────────────────────────────


def summary(errors: Sequence[TaskError], gold: Mapping[str, int], most: int) -> dict[str, Any]:
    """Errors as JSON: their number, counts and at most so many examples.

    Where one label was given for another, the counts are `confusions`, the most frequent first,
    each with the most confident error as `sample`, and `table`, for few labels: how often each
    label (of the rows) was given which. Elsewhere they are `by_label`: how many of each label are
    `gold`, and how many errors of each kind there are.

    Args:
        errors: of a task.
        gold: how often each label is the right one.
        most: examples, and confusions, to keep.
    """
    found: dict[str, Any] = {"count": len(errors)}
    if not errors:
        return {**found, "examples": []}
    if gold and all(error.kind == WRONG for error in errors):
        labels = sorted({*gold, *(error.predicted for error in errors)})
        found["confusions"] = confusions(errors)[:most]
        if len(labels) <= MAX_TABLE:
            found["table"] = confusion_table(errors, gold, labels)
    else:
        found["by_label"] = by_label(errors, gold)
    return {**found, "examples": to_json(chosen(errors, most))}


def by_label(errors: Iterable[TaskError], gold: Mapping[str, int]) -> list[dict[str, Any]]:
    """Errors of each label by kind, and of all."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    usual = dict.fromkeys((MISSED, SPURIOUS, WRONG_LABEL, WRONG_EXTENT), 0) if gold else {}
    total = Counter(usual)
    for error in errors:
        counts[error.label][error.kind] += 1
        total[error.kind] += 1
    labels = sorted({*gold, *counts} - {""})
    rows = [(label, gold.get(label, 0), counts[label]) for label in labels]
    return [
        {"label": label, **({"gold": count} if gold else {}), **{k: kinds[k] for k in total}}
        for label, count, kinds in (*rows, ("all", sum(gold.values()), total))
    ]


def confusions(errors: Iterable[TaskError]) -> list[dict[str, Any]]:
    """Which label was given for which, how often, and the most confident error."""
    found: dict[tuple[str, str], list[TaskError]] = defaultdict(list)
    for error in ranked(errors):
        found[error.gold, error.predicted].append(error)
    return [
        {"gold": gold, "predicted": said, "count": len(each), "sample": each[0].in_context()}
        for (gold, said), each in sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    ]


def confusion_table(
    errors: Iterable[TaskError], gold: Mapping[str, int], labels: Sequence[str]
) -> dict[str, dict[str, int]]:
    """How often examples of each label were given which; what is no error is right."""
    table = {label: dict.fromkeys(labels, 0) for label in labels}
    for label, count in gold.items():
        table[label][label] = count
    for error in errors:
        table[error.gold][error.gold] -= 1
        table[error.gold][error.predicted] += 1
    return table


def chosen(errors: Sequence[TaskError], most: int) -> list[TaskError]:
    """At most so many errors, as many of each kind, the most confident first."""
    kinds: dict[str, list[TaskError]] = defaultdict(list)
    for error in ranked(errors):
        kinds[error.kind].append(error)
    in_turn = (each for each in chain.from_iterable(zip_longest(*kinds.values())) if each)
    kept = [error for error, _ in zip(in_turn, range(most), strict=False)]
    return sorted(kept, key=lambda error: error.kind)


def ranked(errors: Iterable[TaskError]) -> list[TaskError]:
    """The most confident errors first, those without a score last."""
    return sorted(errors, key=lambda error: -1.0 if error.score is None else -error.score)
