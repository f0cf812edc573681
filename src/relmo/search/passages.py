"""Documents -> passages: paragraphs, sentences, lines or windows, bounded in words.

    split("One. Two. Three.", "window", max_words=2)  ->  "One. Two." and "Three."

What is longer than the bound is cut between sentences, and a sentence between words. Only white
space stands outside passages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, get_args

from relmo.errors import ConfigError
from relmo.search.documents import Document, Passage
from relmo.search.paragraphs import Span, split_lines, split_paragraphs
from relmo.text.sentences import split_sentences

Unit = Literal["auto", "paragraph", "sentence", "line", "window"]
"""`paragraph`, `sentence`, `line`: each is a passage. `window`: as many sentences as fit. `auto`:
paragraphs of a text, windows of a row, which is about one thing; scripts/choose_passages.py."""

_WORD = re.compile(r"\S{1,32}")  # text without spaces is bounded too


_SPLIT: dict[str, Callable[[str], Iterable[Span]]] = {
    "paragraph": split_paragraphs,
    "sentence": split_sentences,
    "line": split_lines,
}


def check_unit(unit: str, max_words: int) -> None:
    """Raise ConfigError for a way to cut that is not known."""
    if unit not in get_args(Unit):
        raise ConfigError(f"passages are {unit!r}; choose one of {', '.join(get_args(Unit))}")
    if max_words < 1:
        raise ConfigError(f"passages have {max_words} words at most; at least 1 is needed")


def split(document: Document, unit: Unit, max_words: int) -> list[Passage]:
    """The passages of a document in order, with their places in it."""
    text = document.text
    if unit == "auto":
        unit = "window" if document.is_row else "paragraph"
    passages: list[Passage] = []
    line, seen = document.line, 0
    for start, end in _spans(text, unit, max_words):
        if not document.is_row:
            line += text.count("\n", seen, start)
            seen = start
        passages.append(Passage(start, end, line, text[start:end]))
    return passages


def _spans(text: str, unit: Unit, max_words: int) -> Iterator[Span]:
    if unit == "window":
        yield from _pack(text, split_sentences(text), max_words)
        return
    for start, end in _SPLIT[unit](text):
        if _count(text, start, end) <= max_words:
            yield start, end
        else:
            inner = [(start + a, start + b) for a, b in split_sentences(text[start:end])]
            yield from _pack(text, inner, max_words)


def _pack(text: str, units: list[Span], max_words: int) -> Iterator[Span]:
    """Neighbours joined while they fit into the bound."""
    begin, end, words = 0, 0, 0
    for span in units:
        size = _count(text, *span)
        if words and words + size > max_words:
            yield begin, end
            words = 0
        if size > max_words:
            yield from _cut(text, span, max_words)
            continue
        begin = begin if words else span[0]
        end, words = span[1], words + size
    if words:
        yield begin, end


def _cut(text: str, span: Span, max_words: int) -> Iterator[Span]:
    """A long stretch in pieces of equal numbers of words, none above the bound."""
    words = [m.span() for m in _WORD.finditer(text, *span)]
    pieces = -(-len(words) // max_words)
    size = -(-len(words) // pieces)
    for first in range(0, len(words), size):
        last = min(first + size, len(words)) - 1
        yield words[first][0], words[last][1]


def _count(text: str, start: int, end: int) -> int:
    return sum(1 for _ in _WORD.finditer(text, start, end))
