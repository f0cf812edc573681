"""What a report consists of: sections of tables, figures and text, independent of any format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Literal, NamedTuple, TypeAlias

from relmo.lab.reports.records import TEXTS, RunFile

SpanKind = Literal["", "strong", "paper", "weak"]


class Span(NamedTuple):
    """A piece of text; a number that we measured links to its record."""

    text: str
    run: RunFile | None = None
    title: str = ""
    """Tooltip."""
    kind: SpanKind = ""
    anchor: str = ""
    """Section to link to, for a span without a run."""


Text: TypeAlias = str | Span | Sequence[Span]
Row: TypeAlias = Sequence[Text | None]
"""Cells of a table. The first one names the row; None continues the cell above."""
NOTHING = Span("–", kind="weak")


class Paragraph(NamedTuple):
    """A few sentences."""

    text: Text


class Missing(NamedTuple):
    """What cannot be shown because it was not run; a `command` in it is shown as code."""

    text: str


class Caveat(NamedTuple):
    """What to keep in mind about the numbers."""

    text: str


class Claim(NamedTuple):
    """A statement, and whether it holds here."""

    what: str
    holds: bool
    figures: Text
    is_paper: bool = True
    """Whether the paper states it."""

    @property
    def verdict(self) -> str:
        """As a word."""
        return "yes" if self.holds else "no"


class Table(NamedTuple):
    """Rows under a head."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Row]
    num_words: int = 1
    """Number of leading columns that contain words; the others contain numbers."""


class Figure(NamedTuple):
    """SVG pictures that belong together, by file name, and what they show."""

    pictures: dict[str, str]
    caption: str


class Details(NamedTuple):
    """Collapsed until opened."""

    summary: str
    blocks: Sequence[Block]


Block: TypeAlias = Paragraph | Missing | Caveat | Claim | Table | Figure | Details


class Section(NamedTuple):
    """A table or figure of the paper."""

    name: str
    """Its anchor."""
    title: str
    paper: str
    """What the paper found, in a sentence."""
    blocks: Sequence[Block] = ()

    @property
    def claims(self) -> list[Claim]:
        """Statements that are tested here."""
        return [block for block in self.blocks if isinstance(block, Claim)]


def text(*parts: Text) -> list[Span]:
    """Parts, one after the other, without empty ones."""
    found: list[Span] = []
    for part in parts:
        spans = Span(part) if isinstance(part, str) else part
        found += [spans] if isinstance(spans, Span) else spans
    return [span for span in found if span.text]


def weak(words: str) -> Span:
    """Words that stand back behind others."""
    return Span(words, kind="weak")


def table(name: str, rows: Sequence[Row], **facts: str) -> Table:
    """A table whose caption, which may contain facts, and head are in texts.toml."""
    texts = TEXTS["tables"][name]
    return Table(texts["caption"].format(**facts), texts["head"], rows, texts["words"])


def number(
    value: float, runs: RunFile | Iterable[RunFile], form: str = ".2f", kind: SpanKind = ""
) -> Span:
    """A number and its runs: it links to the first, and its tooltip names all."""
    every = [runs] if isinstance(runs, RunFile) else list(runs)
    named = ", ".join(run.name for run in every)
    return Span(format(value, form), every[0], f"from {named}" if every[1:] else named, kind)


def mean_and_range(values: Sequence[float], runs: Sequence[RunFile]) -> list[Span]:
    """`90.03 89.8–90.2`: the mean over runs, with lowest and highest if there are several."""
    mean = number(fmean(values), runs)
    return text(mean, " ", extremes(values, runs, ".1f", "weak")) if runs[1:] else [mean]


def extremes(
    values: Sequence[float], runs: Sequence[RunFile], form: str = ".2f", kind: SpanKind = ""
) -> list[Span]:
    """`89.80–90.21`: the lowest and the highest of several runs, each linked to its own."""
    ordered = sorted(zip(values, runs, strict=True), key=lambda pair: pair[0])
    low, high = (number(*pair, form, kind) for pair in (ordered[0], ordered[-1]))
    return [low, Span("–", kind=kind), high]


def published(figure: str, remark: str = "") -> list[Span]:
    """A number that we did not measure."""
    return text(Span(figure, kind="paper"), weak(f" {remark}" if remark else ""))


def join(texts: Iterable[Text], between: str = ", ") -> list[Span]:
    """Texts with a separator between them."""
    return text(*(part for each in texts for part in (between, each)))[1:]


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def slug(text: str) -> str:
    """A text as a file name and an anchor."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
