"""Where the words of plain text stand, so that an answer can point at them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from relmo.text.documents import split_documents
from relmo.text.sentences import split_sentences
from relmo.text.tokenize import TreebankTokenizer


class Place(NamedTuple):
    """Of a word: its line, counted from 1, and its characters there, `line[start:end]`."""

    line: int
    start: int
    end: int


Places = tuple[Place, ...]
"""One for each word; none for words that are not of plain text."""
Sentence = tuple[tuple[str, ...], Places]
"""Its words and their places."""


def placed_sentences(line: str, number: int) -> Iterator[Sentence]:
    """The sentences of a line of plain text, those without words left out."""
    tokenizer = TreebankTokenizer()
    for start, end in split_sentences(line):
        tokens = tokenizer.tokens(line[start:end])
        if tokens:
            places = (Place(number, start + token.start, start + token.end) for token in tokens)
            yield tuple(token.text for token in tokens), tuple(places)


def sentences_of_lines(lines: Iterable[str]) -> Iterator[Sentence]:
    """The sentences of all lines."""
    for number, line in enumerate(lines, 1):
        yield from placed_sentences(line, number)


def documents_of_lines(lines: Iterable[str]) -> Iterator[list[Sentence]]:
    """The sentences of each document; a blank line ends one."""
    numbers: list[int] = []  # of the lines of the document that is being read

    def counted() -> Iterator[str]:
        for number, line in enumerate(lines, 1):
            if line.strip():
                numbers.append(number)
            yield line

    for document in split_documents(counted()):
        placed = (placed_sentences(*pair) for pair in zip(document, numbers, strict=True))
        yield [sentence for line in placed for sentence in line]
        numbers.clear()


def describe_span(words: Sequence[str], places: Places, first: int, last: int) -> dict[str, Any]:
    """Words `first` to `last`: which they are, what they say and, if known, where they stand."""
    found: dict[str, Any] = {"first": first, "last": last}
    found["text"] = " ".join(words[first : last + 1])
    if places:
        begin, end = places[first], places[last]
        found |= {"line": begin.line, "start": begin.start, "end": end.end}
    return found
