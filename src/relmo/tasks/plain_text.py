"""Plain text that a trained model is asked about: its words, and where they stand in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from relmo.text.lines import blocks
from relmo.text.sentences import split_sentences
from relmo.text.tokenize import Tokenizer, TreebankTokenizer
from relmo.types import Token

LONGEST = 500
"""Words of a sentence."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where words stand in a text: word i is `text[starts[i]:ends[i]]`."""

    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def span(self, first: int, last: int) -> tuple[str, int, int]:
        """Text, start and end of the words from `first` to `last`, both included."""
        start, end = self.starts[first], self.ends[last]
        return self.text[start:end], start, end


def places_of(words: Sequence[str]) -> Places:
    """Where words stand in their own text, with a space between them."""
    ends = tuple(accumulate(map(len, words), lambda end, length: end + 1 + length))
    starts = tuple(end - len(word) for end, word in zip(ends, words, strict=True))
    return Places(" ".join(words), starts, ends)


class Placed(Protocol):
    """An example with words, which may come from a text."""

    @property
    def words(self) -> tuple[str, ...]:
        """Its words."""

    @property
    def places(self) -> Places | None:
        """Where they stand in the text, if known."""


def places_in(example: Placed) -> Places:
    """Where an example's words stand: in its text, or in their own if it has none."""
    return example.places or places_of(example.words)


Sentence = tuple[tuple[str, ...], Places]
"""Words and their places."""


def split_text(text: str) -> list[str]:
    """Words of plain text, split as the tasks' data are: close to the Penn Treebank."""
    return [token.text for token in TreebankTokenizer().tokens(text)]


def sentences_of(text: str) -> Iterator[Sentence]:
    """The sentences of a text, without empty ones.

    A blank line ends a sentence, and so does the end of a line that the next one does not continue.
    What has no end for more than LONGEST words, such as a table, comes in several pieces.
    """
    for begin, tokens in tokens_of_sentences(text, TreebankTokenizer()):
        starts = tuple(begin + token.start for token in tokens)
        ends = tuple(begin + token.end for token in tokens)
        yield tuple(token.text for token in tokens), Places(text, starts, ends)


def tokens_of_sentences(text: str, tokenizer: Tokenizer) -> Iterator[tuple[int, list[Token]]]:
    """Where each sentence begins, and its tokens, whose offsets count from there.

    Sentences end as `sentences_of` says.
    """
    parts = (
        (first + begin, first + past)
        for first, last in blocks(text)
        for begin, past in split_sentences(text[first:last])
    )
    for begin, past in parts:
        whole = tokenizer.tokens(text[begin:past])
        for first in range(0, len(whole), LONGEST):
            yield begin, whole[first : first + LONGEST]
