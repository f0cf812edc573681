"""What a report is made of. Sections are made of these; Markdown and HTML are made of sections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal, TypeAlias

from relmo.lab.reports.records import Run

Kind = Literal["", "strong", "paper", "weak"]


@dataclass(frozen=True)
class Span:
    """A piece of text; of a number of ours the record that it is from."""

    text: str
    run: Run | None = None
    title: str = ""
    """What is shown when the pointer rests on it."""
    kind: Kind = ""
    anchor: str = ""
    """The section that it leads to, of a span without a run."""


Text: TypeAlias = str | Span | Sequence[Span]
NOTHING = Span("–", kind="weak")


@dataclass(frozen=True)
class Paragraph:
    """A few sentences."""

    text: Text


@dataclass(frozen=True)
class Missing:
    """What cannot be shown, and what would have to be run."""

    text: str


@dataclass(frozen=True)
class Caveat:
    """What to keep in mind about the numbers."""

    text: str


@dataclass(frozen=True)
class Claim:
    """Something that should hold, and whether it does here."""

    what: str
    holds: bool
    figures: Text
    is_paper: bool = True
    """Whether the paper found it."""

    @property
    def verdict(self) -> str:
        """As a word."""
        return "yes" if self.holds else "no"


@dataclass(frozen=True)
class Table:
    """Rows under a head. A row's first cell names it; None continues the cell above."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Text | None]]
    num_words: int = 1
    """Columns, from the first on, that hold words; the others hold numbers."""


@dataclass(frozen=True)
class Figure:
    """Pictures that belong together, by file name, and what they show."""

    pictures: dict[str, str]
    caption: str


@dataclass(frozen=True)
class Details:
    """Folded away until asked for."""

    summary: str
    blocks: Sequence[Block]


Block: TypeAlias = Paragraph | Missing | Caveat | Claim | Table | Figure | Details


@dataclass(frozen=True)
class Section:
    """A table or figure of the paper."""

    name: str
    """Its anchor."""
    title: str
    paper: str
    """What the paper found, in a sentence."""
    blocks: Sequence[Block] = field(default_factory=tuple)

    @property
    def claims(self) -> list[Claim]:
        """That are tested here."""
        return [block for block in self.blocks if isinstance(block, Claim)]


def spans_of(text: Text) -> list[Span]:
    """Any text as spans."""
    if isinstance(text, str):
        return [Span(text)]
    return [text] if isinstance(text, Span) else list(text)


def number(value: float, runs: Run | Iterable[Run], form: str = ".2f", kind: Kind = "") -> Span:
    """A number and where it is from; of several runs the first is linked and all are named."""
    every = [runs] if isinstance(runs, Run) else list(runs)
    named = ", ".join(run.path.parent.name for run in every)
    return Span(format(value, form), every[0], f"from {named}" if every[1:] else named, kind)


def mean_of(name: str, runs: Sequence[Run], form: str = ".2f") -> Span:
    """The mean of a result over runs."""
    return number(fmean(float(run.results[name]) for run in runs), runs, form)


def versus(first: Span, second: Span, between: str = " against ") -> list[Span]:
    """`67.1 against 65.9`."""
    return [first, Span(between), second]


def extremes(
    values: Sequence[float], runs: Sequence[Run], form: str = ".2f", kind: Kind = ""
) -> list[Span]:
    """`89.80–90.21`: the lowest and the highest of runs, each linked to its own."""
    ordered = sorted(zip(values, runs, strict=True), key=lambda pair: pair[0])
    low, high = (number(*pair, form, kind) for pair in (ordered[0], ordered[-1]))
    return [low, Span("–", kind=kind), high]


def published(figure: str) -> Span:
    """A number that we did not measure."""
    return Span(figure, kind="paper")


def not_rerun(figure: str) -> list[Span]:
    """A published number of a system that is not part of relmo."""
    return [published(figure), Span(" not rerun", kind="weak")]


def join(texts: Iterable[Text], between: str = ", ") -> list[Span]:
    """Texts with something between them."""
    found: list[Span] = []
    for text in texts:
        found += [Span(between)] if found else []
        found += spans_of(text)
    return found
