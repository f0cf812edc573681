"""Plain text that a trained model is asked about: its words, and their offsets for the answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from relmo.text.documents import split_documents
from relmo.text.sentences import split_sentences
from relmo.text.tokenize import TreebankTokenizer


class Offset(NamedTuple):
    """Where a word is: its line, numbered from 1, and its characters `line[start:end]`."""

    line: int
    start: int
    end: int


Offsets = tuple[Offset, ...]
"""One for each word; empty for words that do not come from plain text."""
Sentence = tuple[tuple[str, ...], Offsets]
"""Words and their offsets."""


def split_text(text: str) -> list[str]:
    """Words of plain text, split as the tasks' data are: close to the Penn Treebank."""
    return [token.text for token in TreebankTokenizer().tokens(text)]


def sentences_of_line(line: str, number: int) -> Iterator[Sentence]:
    """The sentences of a line of plain text, without empty ones."""
    for start, end in split_sentences(line):
        tokens = TreebankTokenizer().tokens(line[start:end])
        if tokens:
            offsets = (Offset(number, start + token.start, start + token.end) for token in tokens)
            yield tuple(token.text for token in tokens), tuple(offsets)


def sentences_of_lines(lines: Iterable[str]) -> Iterator[Sentence]:
    """The sentences of all lines."""
    for number, line in enumerate(lines, 1):
        yield from sentences_of_line(line, number)


def documents_of_lines(lines: Iterable[str]) -> Iterator[list[Sentence]]:
    """The sentences of each document; a blank line ends a document."""
    numbers: list[int] = []  # lines of the current document

    def counted() -> Iterator[str]:
        for number, line in enumerate(lines, 1):
            if line.strip():
                numbers.append(number)
            yield line

    for document in split_documents(counted()):
        split = (sentences_of_line(*pair) for pair in zip(document, numbers, strict=True))
        yield [sentence for line in split for sentence in line]
        numbers.clear()


def describe_span(words: Sequence[str], offsets: Offsets, first: int, last: int) -> dict[str, Any]:
    """Words `first` to `last` as JSON: their numbers, their text and, if known, their offsets."""
    found = {"first": first, "last": last, "text": " ".join(words[first : last + 1])}
    if not offsets:
        return found
    line, start, _ = offsets[first]
    return {**found, "line": line, "start": start, "end": offsets[last].end}
