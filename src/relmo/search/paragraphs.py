"""Text -> its paragraphs: where each starts and ends.

A blank line ends a paragraph. A single line break does where lines are paragraphs of their own,
and does not where a paragraph was broken to fit a page: there the next line goes on in the middle
of a sentence more often than not, and no line is long. A heading belongs to what follows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Span = tuple[int, int]

PAGE = 160
"""Characters of the longest line that is still taken as broken to fit a page."""
HEADING = 16
"""Words of the longest heading."""

_BLANK = re.compile(r"\n\s*\n")
_LINE = re.compile(r"\S[^\n]*")
_ITEM = re.compile(r"[-*+•][ \t]|\d{1,3}[.)][ \t]+[^\W\d]")  # "3. 5" is a number
_ENDED = re.compile(r"""[.!?…:;,。！？][\"'”’»)\]_*`]*\Z""")


def split_paragraphs(text: str) -> Iterator[Span]:
    """(start, end) of each paragraph, in order; only white space stands outside them."""
    heading: Span | None = None
    for start, end in _stretches(text):
        if _is_heading(text[start:end]):
            if heading is not None:
                yield heading
            heading = (start, end)
        else:
            yield (heading or (start, end))[0], end
            heading = None
    if heading is not None:
        yield heading


def split_lines(text: str, start: int = 0, end: int | None = None) -> Iterator[Span]:
    """(start, end) of each line that is not blank."""
    for line in _LINE.finditer(text, start, len(text) if end is None else end):
        yield line.start(), line.start() + len(line[0].rstrip())


def _stretches(text: str) -> Iterator[Span]:
    """Paragraphs and headings."""
    start = 0
    for end, following in [*(m.span() for m in _BLANK.finditer(text)), (len(text), len(text))]:
        if lines := list(split_lines(text, start, end)):
            yield from _joined(text, lines)
        start = following


def _joined(text: str, lines: list[Span]) -> Iterator[Span]:
    """The lines between two blank ones, joined where they go on."""
    goes_on = [_goes_on(text[start : start + 8]) for start, _ in lines[1:]]
    is_broken = 3 * sum(goes_on) >= len(goes_on) and max(b - a for a, b in lines) <= PAGE
    begin, end = lines[0]
    for line, is_middle in zip(lines[1:], goes_on, strict=True):
        if not is_middle and (not is_broken or _ITEM.match(text, *line)):
            yield begin, end
            begin = line[0]
        end = line[1]
    yield begin, end


def _goes_on(start: str) -> bool:
    """Whether a line that starts so goes on with a sentence; without upper case, it may."""
    if _ITEM.match(start):
        return False
    letter = next((each for each in start[:3] if each.isalpha()), "A")
    return not (letter.isupper() or letter.istitle())


def _is_heading(text: str) -> bool:
    words = len(text.split())
    is_short = words <= 3 or (words <= HEADING and not _ENDED.search(text))
    return "\n" not in text and (text.startswith("#") or (is_short and text[0] not in "-*+•|"))
