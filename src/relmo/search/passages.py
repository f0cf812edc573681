"""Documents -> passages: paragraphs, sentences, lines or windows, limited in words.

    split_passages(Document("a", "a", "One. Two. Three."), "window", max_words=2)
    # passages "One. Two." and "Three."

Text longer than the limit is split between sentences, and a long sentence between words. Passages
cover all of a document except white space.

A blank line ends a paragraph. A single line break ends one only where every line is a paragraph of
its own; in text wrapped to a page width, lines continue in the middle of a sentence and none is
long. A heading belongs to the paragraph after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from relmo.search.documents import Document
from relmo.search.settings import PassageUnit
from relmo.text.sentences import split_sentences

TextRange = tuple[int, int]
"""(start, end) in characters of a text."""

MAX_WRAPPED_LINE = 160
"""Characters of the longest line in text that counts as wrapped to a page width."""
MAX_HEADING_WORDS = 16

_WORD = re.compile(r"\S{1,32}")  # limits text without spaces, too
_BLANK = re.compile(r"\n\s*\n")
_LINE = re.compile(r"\S[^\n]*")
_LIST_ITEM = re.compile(r"[-*+•][ \t]|\d{1,3}[.)][ \t]+[^\W\d]")  # "3. 5" is a number
_SENTENCE_END = re.compile(r"""[.!?…:;,。！？][\"'”’»)\]_*`]*\Z""")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document that gets one vector."""

    start: int
    end: int
    """Characters of the document's text."""
    line: int
    """Line of the source on which it starts."""
    text: str


def split_passages(document: Document, unit: PassageUnit, max_words: int) -> list[Passage]:
    """The passages of a document in order, with their positions in it."""
    text = document.text
    if unit == "auto":
        unit = "window" if document.is_row else "paragraph"
    passages: list[Passage] = []
    line, seen = document.line, 0
    for start, end in _ranges(text, unit, max_words):
        if not document.is_row:
            line += text.count("\n", seen, start)
            seen = start
        passages.append(Passage(start, end, line, text[start:end]))
    return passages


def _ranges(text: str, unit: PassageUnit, max_words: int) -> Iterator[TextRange]:
    if unit == "window":
        yield from _pack(text, split_sentences(text), max_words)
        return
    for start, end in _SPLITTERS[unit](text):
        if _count_words(text, start, end) <= max_words:
            yield start, end
        else:
            inner = [(start + a, start + b) for a, b in split_sentences(text[start:end])]
            yield from _pack(text, inner, max_words)


def _pack(text: str, sentences: list[TextRange], max_words: int) -> Iterator[TextRange]:
    """Join neighboring sentences as long as they fit into the limit."""
    begin, end, words = 0, 0, 0
    for sentence in sentences:
        size = _count_words(text, *sentence)
        if words and words + size > max_words:
            yield begin, end
            words = 0
        if size > max_words:
            yield from _cut(text, sentence, max_words)
            continue
        begin = begin if words else sentence[0]
        end, words = sentence[1], words + size
    if words:
        yield begin, end


def _cut(text: str, sentence: TextRange, max_words: int) -> Iterator[TextRange]:
    """Cut a long sentence into pieces of about equal numbers of words, within the limit."""
    words = [m.span() for m in _WORD.finditer(text, *sentence)]
    pieces = -(-len(words) // max_words)
    size = -(-len(words) // pieces)
    for first in range(0, len(words), size):
        last = min(first + size, len(words)) - 1
        yield words[first][0], words[last][1]


def _count_words(text: str, start: int, end: int) -> int:
    return sum(1 for _ in _WORD.finditer(text, start, end))


# ── paragraphs ───────────────────────────────────────────────────────────────────────────────────


def split_paragraphs(text: str) -> Iterator[TextRange]:
    """(start, end) of each paragraph in order; only white space is left out."""
    heading: TextRange | None = None
    for start, end in _blocks(text):
        if _is_heading(text[start:end]):
            if heading is not None:
                yield heading
            heading = (start, end)
        else:
            yield (heading or (start, end))[0], end
            heading = None
    if heading is not None:
        yield heading


def split_lines(text: str, start: int = 0, end: int | None = None) -> Iterator[TextRange]:
    """(start, end) of each line that is not blank."""
    for line in _LINE.finditer(text, start, len(text) if end is None else end):
        yield line.start(), line.start() + len(line[0].rstrip())


_SPLITTERS: dict[str, Callable[[str], Iterable[TextRange]]] = {
    "paragraph": split_paragraphs,
    "sentence": split_sentences,
    "line": split_lines,
}


def _blocks(text: str) -> Iterator[TextRange]:
    """Paragraphs and headings."""
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


def _is_heading(text: str) -> bool:
    words = len(text.split())
    is_short = words <= 3 or (words <= MAX_HEADING_WORDS and not _SENTENCE_END.search(text))
    return "\n" not in text and (text.startswith("#") or (is_short and text[0] not in "-*+•|"))
