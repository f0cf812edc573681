"""Words <-> character ids: the official byte scheme and a code-point scheme.

A word becomes C ids: begin-of-word, its characters, end-of-word, then padding inside the word.
Id 0 is kept for words that are not there at all (padding of a batch). Users never see ids.

    bytes        "a" -> 259  98 260 261 261 …    UTF-8 bytes + 1; a word is cut after C - 2 bytes
    code_points  "가" -> one id for a whole character; a word is cut between characters
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from relmo.config import NUM_MARKERS, CharCnnConfig

BEGIN_SENTENCE, END_SENTENCE = "<S>", "</S>"
"""The strings that mean the two boundaries wherever a list of words is read."""

ZERO_WIDTH_JOINER = "\u200d"

CharIds = NDArray[np.int64]


class Characters(Protocol):
    """How a model spells words."""

    max_characters: int
    padding: int
    """The id that fills a word up to max_characters."""

    def spell(self, words: Sequence[str]) -> CharIds:
        """Ids of the words, (U, C)."""

    def is_cut(self, word: str) -> bool:
        """Whether the word is longer than the model can see."""


def make_characters(config: CharCnnConfig) -> Characters:
    """The scheme that a model's settings name."""
    if config.scheme == "bytes":
        return ByteCharacters(config.max_characters)
    return CodePointCharacters(config.alphabet, config.max_characters)


class ByteCharacters:
    """The official scheme: UTF-8 bytes, five markers, everything shifted by one."""

    # Raw ids 256 … 260, and + 1 because model id 0 is the padding of a batch.
    begin_sentence, end_sentence, begin_word, end_word, padding = range(257, 257 + NUM_MARKERS)

    def __init__(self, max_characters: int = 50) -> None:
        self.max_characters = max_characters

    def spell(self, words: Sequence[str]) -> CharIds:
        """Ids of the words, (U, C)."""
        ids = np.full((len(words), self.max_characters), self.padding, dtype=np.int64)  # (U, C)
        ids[:, 0] = self.begin_word
        for row, word in zip(ids, words, strict=True):
            if word in (BEGIN_SENTENCE, END_SENTENCE):
                row[1] = self.begin_sentence if word == BEGIN_SENTENCE else self.end_sentence
                row[2] = self.end_word
                continue
            letters = self._bytes(word)[: self.max_characters - 2]  # may split a code point
            row[1 : len(letters) + 1] = np.frombuffer(letters, dtype=np.uint8)
            row[1 : len(letters) + 1] += 1
            row[len(letters) + 1] = self.end_word
        return ids

    def is_cut(self, word: str) -> bool:
        """Whether the word has more bytes than the model can see."""
        return len(self._bytes(word)) > self.max_characters - 2

    @staticmethod
    def _bytes(word: str) -> bytes:
        # As the originals do: half a surrogate pair has no bytes. The word itself stays.
        return word.encode("utf-8", "ignore")


class CodePointCharacters:
    """One id per character of an alphabet, one for all others; cuts only between characters."""

    def __init__(self, alphabet: str, max_characters: int = 50) -> None:
        self.max_characters = max_characters
        self._id_of = {character: i for i, character in enumerate(alphabet, start=1)}
        self.unknown = 1 + len(alphabet)
        markers = range(self.unknown + 1, self.unknown + 1 + NUM_MARKERS)
        self.begin_sentence, self.end_sentence, self.begin_word, self.end_word, self.padding = (
            markers
        )

    def spell(self, words: Sequence[str]) -> CharIds:
        """Ids of the words, (U, C)."""
        ids = np.full((len(words), self.max_characters), self.padding, dtype=np.int64)  # (U, C)
        for row, word in zip(ids, words, strict=True):
            if word in (BEGIN_SENTENCE, END_SENTENCE):
                inner = [self.begin_sentence if word == BEGIN_SENTENCE else self.end_sentence]
            else:
                inner = [self._id_of.get(letter, self.unknown) for letter in self._cut(word)]
            row[: len(inner) + 2] = [self.begin_word, *inner, self.end_word]
        return ids

    def is_cut(self, word: str) -> bool:
        """Whether the word has more characters than the model can see."""
        return len(word) > self.max_characters - 2

    def _cut(self, word: str) -> str:
        room = self.max_characters - 2
        if len(word) <= room:
            return word
        end = room
        while end > 0 and is_inside_character(word, end):
            end -= 1
        return word[: end or room]


def is_inside_character(word: str, position: int) -> bool:
    """Whether a cut there parts a letter from its marks, or an emoji from its joiner or tone."""
    before, after = word[position - 1], word[position]
    return (
        unicodedata.category(after).startswith("M")
        or ZERO_WIDTH_JOINER in (before, after)
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
    )


def alphabet_of(words: Iterable[str], max_size: int = 20_000) -> str:
    """The most frequent characters of the words, by count and then by code point."""
    counts: dict[str, int] = {}
    for word in words:
        for letter in word:
            counts[letter] = counts.get(letter, 0) + 1
    ranked = sorted(counts, key=lambda letter: (-counts[letter], letter))
    return "".join(ranked[:max_size])
