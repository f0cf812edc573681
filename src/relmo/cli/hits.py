"""Hits of a search as text: a line each in a pipe; on a terminal their best sentences and why."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from relmo.progress import printable
from relmo.search import Explanation, Hit

LINE_CHARACTERS = 200
"""Of a hit's text in a pipe."""
SHOWN_CHARACTERS = 320
"""Of a hit's text on a terminal."""
CUT = "…"
WORD, BESIDE = "bold magenta", "dim"
"""Styles of words of the query, and of the text around the best sentence."""

Span = tuple[int, int]


class FlatText(NamedTuple):
    """The text of a hit as one line, with the spans of its explanation."""

    text: str
    sentence: Span = (0, 0)
    words: tuple[Span, ...] = ()

    @classmethod
    def of(cls, hit: Hit, why: Explanation | None) -> FlatText:
        """The text with single spaces; the spans move with it."""
        flat = " ".join(hit.text.split())
        if why is None:
            return cls(flat)

        def moved(span: Span) -> Span:
            start, end = span
            return _flat_offset(hit.text, start), _flat_offset(hit.text, end - 1) + 1

        return cls(flat, moved(why.sentence), tuple(map(moved, why.words)))


def _flat_offset(text: str, offset: int) -> int:
    """Where a character that is no white space is in the flat text."""
    return len(" ".join(f"{text[:offset]}x".split())) - 1


def needs_cutting(hit: Hit) -> bool:
    """Whether the text of a hit is too long for a line."""
    return len(FlatText.of(hit, None).text) > LINE_CHARACTERS


def as_line(hit: Hit, why: Explanation | None = None) -> str:
    """Score, document, line and text; of a long text the part with the best sentence."""
    flat = FlatText.of(hit, why)
    start, end = window(flat, LINE_CHARACTERS)
    shown = f"{CUT if start else ''}{flat.text[start:end]}{CUT if end < len(flat.text) else ''}"
    return printable(f"{_place(hit)}  {shown}")


def show(hit: Hit, why: Explanation, console: Console) -> None:
    """Print a hit on a terminal: where it is, why, and its best sentence with the words marked."""
    head = Text.assemble((printable(_place(hit)), "bold"), "  ", (reason(hit, why), BESIDE))
    console.print(head, soft_wrap=True)
    flat = FlatText.of(hit, why)
    start, end = window(flat, SHOWN_CHARACTERS)
    shown = [(printable(piece), style) for piece, style in pieces(flat, start, end)]
    before, after = CUT if start else "", CUT if end < len(flat.text) else ""
    text = Text.assemble((before, BESIDE), *shown, (after, BESIDE))
    console.print(Padding(text, (0, 0, 0, 8), expand=False))


def reason(hit: Hit, why: Explanation) -> str:
    """What the score is made of, and how often the hit is left out: `words 70 %, meaning 30 %`."""
    words = round(100 * why.by_words)
    copies = f"{hit.copies} near-copies" if hit.copies > 1 else "1 near-copy"
    return f"words {words} %, meaning {100 - words} %{f'; {copies} left out' if hit.copies else ''}"


def window(flat: FlatText, size: int) -> Span:
    """The part of a text that is shown: its beginning, if the best sentence is there, else that."""
    text, (first, last) = flat.text, flat.sentence
    if len(text) <= size:
        return 0, len(text)
    if last < size:
        return 0, size - 1
    start = len(text) - size + 2  # near the end there is room for what is before the sentence
    start = min(first, text.find(" ", start) + 1 or first)
    return start, min(len(text), start + size - 2)


def pieces(flat: FlatText, start: int, end: int) -> Iterator[tuple[str, str]]:
    """The text from start to end in pieces of one style each."""
    cuts = {start, end, *flat.sentence, *(cut for span in flat.words for cut in span)}
    for first, last in pairwise(sorted(cut for cut in cuts if start <= cut <= end)):
        is_word = any(begin <= first < stop for begin, stop in flat.words)
        is_sentence = flat.sentence[0] <= first < flat.sentence[1]
        yield flat.text[first:last], WORD if is_word else "" if is_sentence else BESIDE


def _place(hit: Hit) -> str:
    return f"{hit.score:.4f}  {hit.document}:{hit.line}"
