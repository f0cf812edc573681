r"""The lines of a text that belong together: paragraphs, even those wrapped to a page width.

    blocks("Markets\nLondon\nParis")                   ->  three: a list
    blocks("It rained in the\nmorning.\n\nAda left.")  ->  two: a blank line parts them

A line that starts in lower case continues the one before. Where at least a third of the lines do,
the text is wrapped to a page width, and the others continue, too; elsewhere each of them stands
alone, such as a headline, a name in a list or a verse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

TextRange = tuple[int, int]
"""(start, end) in characters of a text."""

MAX_WRAPPED_LINE = 160
"""Characters of the longest line in text that counts as wrapped to a page width."""

_BLANK = re.compile(r"\n\s*\n")
_LINE = re.compile(r"\S[^\n]*")
_LIST_ITEM = re.compile(r"[-*+•][ \t]|\d{1,3}[.)][ \t]+[^\W\d]")  # "3. 5" is a number


def split_lines(text: str, start: int = 0, end: int | None = None) -> Iterator[TextRange]:
    """(start, end) of each line that is not blank."""
    for line in _LINE.finditer(text, start, len(text) if end is None else end):
        yield line.start(), line.start() + len(line[0].rstrip())


def blocks(text: str) -> Iterator[TextRange]:
    """(start, end) of what blank lines part, and of lines that do not continue the one before."""
    start = 0
    for end, following in [*(m.span() for m in _BLANK.finditer(text)), (len(text), len(text))]:
        if lines := list(split_lines(text, start, end)):
            yield from _join_lines(text, lines)
        start = following


def _join_lines(text: str, lines: list[TextRange]) -> Iterator[TextRange]:
    """The lines between two blank ones, joined where a line continues the one before."""
    continues = [_continues(text[start : start + 8]) for start, _ in lines[1:]]
    longest = max(end - start for start, end in lines)
    is_wrapped = 3 * sum(continues) >= len(continues) and longest <= MAX_WRAPPED_LINE
    begin, end = lines[0]
    for line, is_middle in zip(lines[1:], continues, strict=True):
        if not is_middle and (not is_wrapped or _LIST_ITEM.match(text, *line)):
            yield begin, end
            begin = line[0]
        end = line[1]
    yield begin, end


def _continues(start: str) -> bool:
    """Whether a line with this start continues a sentence; in scripts without case it may."""
    if _LIST_ITEM.match(start):
        return False
    letter = next((each for each in start[:3] if each.isalpha()), "A")
    return not (letter.isupper() or letter.istitle())
