"""What a trained task model answers: typed results, with their places in the text and a score.

    Entity(text="Ada Lovelace", label="PER", start=0, end=12, score=0.99)

`start` and `end` are offsets into the text as it was given: `text[start:end]` is the result's own
`text`. A score is the probability that the result is right, calibrated on the development part
(`tasks/calibration.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Entity:
    """A labeled piece of a text, such as a name."""

    text: str
    label: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class TaggedToken:
    """A word and its tag."""

    text: str
    tag: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Predicate:
    """The word that a frame is about; its score is that of being a predicate."""

    text: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Argument:
    """A piece of a text and its role in a frame."""

    text: str
    label: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Frame:
    """Who did what to whom: a predicate and its arguments, in the order of the text."""

    predicate: Predicate
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Mention:
    """A piece of a text that mentions somebody or something."""

    text: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Cluster:
    """Mentions of the same thing, in the order of the text."""

    mentions: tuple[Mention, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The piece of a text that answers a question."""

    text: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Label:
    """The class of a text, or of two."""

    label: str
    score: float
    scores: Mapping[str, float] = field(default_factory=dict, repr=False, compare=False)
    """The probability of each class, the most probable first; empty where a text may have several
    labels."""


Span = tuple[str, int, int]
"""Label, start and end."""


def to_json(result: object) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """A result, or a list of them, as JSON: dataclasses become objects.

    Bare numbers have the seven digits that float32 has.
    """
    if isinstance(result, list | tuple):
        return [to_json(each) for each in result]
    if is_dataclass(result) and not isinstance(result, type):
        return _rounded(asdict(result))
    return float(f"{result:.7g}") if isinstance(result, float) else result


def _rounded(value: Any) -> Any:  # noqa: ANN401
    """Floats with the digits that a probability deserves; empty objects are left out."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items() if each != {}}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value


# ── for people ──────────────────────────────────────────────────────────────────────────────────


def render(result: Any, text: str) -> str:  # noqa: ANN401 - of any type
    """The results of a text as a person reads them; `text` is the one their offsets are of.

    `[PER Ada Lovelace] lived in [LOC London].`, `Ada/PROPN lived/VERB`, a line per frame,
    `[1 Ada] said [1 she] left`, the answer itself, label and score before the text, or the numbers
    of a vector; nothing where there is no answer.
    """
    match result:
        case [Frame(), *_]:
            return "\n".join(_render_frame(frame, text) for frame in result)
        case [Cluster(), *_]:
            spans = [(str(n), m.start, m.end) for n, c in enumerate(result, 1) for m in c.mentions]
            return bracketed(text, spans)
        case [Entity(), *_]:
            return bracketed(text, ((e.label, e.start, e.end) for e in result))
        case [TaggedToken(), *_]:
            return " ".join(f"{token.text}/{token.tag}" for token in result)
        case [Label(), *_]:
            named = ", ".join(f"{each.label} {each.score:.2f}" for each in result)
            return f"{named}\t{text}"
        case Label(label, score):
            return f"{label}\t{score:.2f}\t{text}"
        case Answer(found):
            return found
        case [float(), *_]:
            return " ".join(f"{number:.6g}" for number in result)
        case []:
            return text
        case None:
            return ""
        case _:
            return str(result)


def _render_frame(frame: Frame, text: str) -> str:
    arguments = [(a.label, a.start, a.end) for a in frame.arguments]
    return bracketed(text, [*arguments, ("V", frame.predicate.start, frame.predicate.end)])


def bracketed(text: str, spans: Iterable[Span]) -> str:
    """The text with `[label …]` around each span; spans may lie inside each other."""
    marks: list[tuple[int, int, int, str]] = []  # place, ends first, the inner ones nearest
    for label, start, end in spans:
        marks.append((start, 1, start - end, f"[{label} "))
        marks.append((end, 0, end - start, "]"))
    shown, done = [], 0
    for place, _, _, mark in sorted(marks):
        shown += [text[done:place], mark]
        done = place
    return "".join([*shown, text[done:]])
