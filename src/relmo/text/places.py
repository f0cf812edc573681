"""The places of a word in sentences, and how alike its vectors are there: see `Elmo.compare`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from relmo.text.tokenize import Sentence, Tokenizer, words_of
from relmo.types import Vectors

SHOWN_CHARACTERS = 40
"""Characters of a sentence that are shown on each side of the word."""


@dataclass(frozen=True, slots=True)
class Place:
    """One occurrence of a word."""

    sentence: int
    """The number of the sentence, counted from 0."""
    position: int
    """The number of the word's first token in it, counted from 0."""
    tokens: int
    """How many tokens the word is; the tokenizer may split it."""
    text: str
    """The sentence; a token list is joined by spaces."""
    start: int
    end: int
    """Offsets of the word: `text[start:end]`."""

    def parts(self) -> tuple[str, str, str]:
        """What stands before the word, the word, and what stands after it, shortened."""
        before, after = self.text[: self.start], self.text[self.end :]
        if len(before) > SHOWN_CHARACTERS:
            before = "…" + before[-SHOWN_CHARACTERS:]
        if len(after) > SHOWN_CHARACTERS:
            after = after[:SHOWN_CHARACTERS] + "…"
        return before, self.text[self.start : self.end], after

    def __str__(self) -> str:
        before, word, after = self.parts()
        return " ".join(f"{before}[{word}]{after}".split())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WordComparison:
    """A word's places and the cosines between its vectors there; `print` shows both."""

    word: str
    places: tuple[Place, ...]
    """In order of sentence and position: N."""
    cosines: Vectors
    """(N, N): row i, column j compares places i and j."""
    compared_by: str
    """"sense vectors", or the layer."""
    without: tuple[int, ...]
    """Numbers of the sentences that do not contain the word."""

    def __str__(self) -> str:
        digits = len(str(len(self.places) - 1))
        lines = [f"{self.word!r} at {len(self.places)} places, cosines of {self.compared_by}"]
        lines += [f"  {i:>{digits}}  {place}" for i, place in enumerate(self.places)]
        lines.append(" " * (2 + digits) + "".join(f"{i:>7}" for i in range(len(self.places))))
        for i, row in enumerate(self.cosines):
            lines.append(f"  {i:>{digits}}" + "".join(f"{cosine:7.2f}" for cosine in row))
        if self.without:
            lines.append(f"not in sentence {', '.join(map(str, self.without))} (counted from 0)")
        return "\n".join(lines)

    __repr__ = __str__  # so that an interactive session shows it


def find_places(
    word: str, sentences: Sequence[Sentence], tokenizer: Tokenizer, *, any_case: bool = False
) -> Iterator[tuple[list[str], list[Place]]]:
    """The words of each sentence and the places of a word in it, the word's case kept if it can be.

    A sentence that has the word in another case only is searched regardless of case, or each one
    if asked for.
    """
    spellings = [[word], [token.text for token in tokenizer.tokens(word)]]
    folded = [[part.casefold() for part in parts] for parts in spellings]
    for number, sentence in enumerate(sentences):
        if isinstance(sentence, str):
            text, tokens = sentence, tokenizer.tokens(sentence)
            words, spans = [t.text for t in tokens], [(t.start, t.end) for t in tokens]
        else:
            words = words_of(sentence, number, tokenizer)
            text, spans = " ".join(words), list(_joined_spans(words))
        found = [] if any_case else _find(spellings, words)
        found = found or _find(folded, [each.casefold() for each in words])
        places = [
            Place(number, first, past - first, text, spans[first][0], spans[past - 1][1])
            for first, past in found
        ]
        yield words, places


def _find(spellings: list[list[str]], words: list[str]) -> list[tuple[int, int]]:
    """Where the first spelling that occurs among words begins and ends, each time."""
    for parts in filter(None, spellings):
        starts = range(len(words) - len(parts) + 1)
        if found := [(i, i + len(parts)) for i in starts if words[i : i + len(parts)] == parts]:
            return found
    return []


def _joined_spans(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Offsets of each word once they are joined by spaces."""
    start = 0
    for word in words:
        yield start, start + len(word)
        start += len(word) + 1
