"""Words <-> character ids: the official byte scheme and a code-point scheme.

A word becomes C ids: begin of word, its characters, end of word, then padding inside the word.
Id 0 is reserved for words that do not exist (padding of a batch). Users never see ids.

    bytes        "a" -> 259  98 260 261 261 …    UTF-8 bytes + 1; a word is cut after C - 2 bytes
    code_points  "가" -> one id per character; a word is cut between characters
"""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from relmo.config import BYTE_IDS, NUM_MARKERS, CharCnnConfig

BEGIN_SENTENCE, END_SENTENCE = "<S>", "</S>"
"""The strings that mean the two sentence boundaries in any list of words."""

ZERO_WIDTH_JOINER = "\u200d"


class Characters(ABC):
    """How a model spells words, in `num_ids` ids of which the last five are markers."""

    def __init__(self, num_ids: int, max_characters: int) -> None:
        self.max_characters = max_characters
        self.begin_sentence, self.end_sentence, *in_word = range(num_ids - NUM_MARKERS, num_ids)
        self.begin_word, self.end_word, self.padding = in_word

    def spell(self, words: Sequence[str]) -> NDArray[np.int64]:
        """The ids of the words, (U, C)."""
        boundaries = {BEGIN_SENTENCE: [self.begin_sentence], END_SENTENCE: [self.end_sentence]}
        ids = np.full((len(words), self.max_characters), self.padding, dtype=np.int64)  # (U, C)
        for row, word in zip(ids, words, strict=True):
            letters = boundaries[word] if word in boundaries else self._letters(word)
            row[: len(letters) + 2] = [self.begin_word, *letters, self.end_word]
        return ids

    def is_cut(self, word: str) -> bool:
        """Whether the word is longer than the model can read."""
        return len(self._units(word)) > self.max_characters - 2

    @abstractmethod
    def _units(self, word: str) -> str | bytes:
        """What the word is spelled in, each with an id."""

    @abstractmethod
    def _letters(self, word: str) -> list[int]:
        """The ids of the word's units, cut to C - 2."""


class ByteCharacters(Characters):
    """The official scheme: UTF-8 bytes and five markers, all shifted by one for padding."""

    def __init__(self, max_characters: int = 50) -> None:
        super().__init__(BYTE_IDS, max_characters)

    def _units(self, word: str) -> bytes:
        # As the original does: half a surrogate pair has no bytes. The word itself stays.
        return word.encode("utf-8", "ignore")

    def _letters(self, word: str) -> list[int]:
        kept = self._units(word)[: self.max_characters - 2]  # may split a code point
        return [byte + 1 for byte in kept]


class CodePointCharacters(Characters):
    """One id per character of an alphabet, one for all others; cuts only between characters."""

    def __init__(self, alphabet: str, max_characters: int = 50) -> None:
        self._id_of = {character: i for i, character in enumerate(alphabet, start=1)}
        self.unknown = 1 + len(alphabet)
        super().__init__(self.unknown + 1 + NUM_MARKERS, max_characters)

    def _units(self, word: str) -> str:
        return word

    def _letters(self, word: str) -> list[int]:
        end = room = self.max_characters - 2
        while len(word) > room and end > 0 and is_inside_character(word, end):
            end -= 1
        return [self._id_of.get(letter, self.unknown) for letter in word[: end or room]]


def make_characters(config: CharCnnConfig) -> Characters:
    """The scheme that a model's settings name."""
    if config.scheme == "bytes":
        return ByteCharacters(config.max_characters)
    return CodePointCharacters(config.alphabet, config.max_characters)


def is_inside_character(word: str, position: int) -> bool:
    """Whether a cut here would separate a letter from its marks, or an emoji from its joiner."""
    before, after = word[position - 1], word[position]
    return (
        unicodedata.category(after).startswith("M")
        or ZERO_WIDTH_JOINER in (before, after)
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
    )
