"""Sentences as users give them -> words: strings are split, token lists are checked."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from relmo.errors import TextError, TextWarning
from relmo.text.tokenize import Tokenizer

Sentence = str | Sequence[str]
"""One sequence: a string, which the model's tokenizer splits, or a list of tokens."""

Forbidden: tuple[type, ...] = (bytes, bytearray, dict, set)
"""Iterable, but no sentence: without words, or without order."""
HERE = str(Path(__file__).parents[1])


def check_sentences(sentences: Iterable[Sentence]) -> None:
    """Raise TextError for one string in the place of many: it would be read letter by letter."""
    if isinstance(sentences, str):
        raise TextError("a list of sentences is needed and one string came; write [text]")


def tokenized(sentences: Iterable[Sentence], tokenizer: Tokenizer) -> Iterator[list[str]]:
    """The words of each sequence: strings are tokenized, token lists are checked."""
    check_sentences(sentences)
    return (words_of(each, i, tokenizer) for i, each in enumerate(sentences))


def words_of(sentence: Sentence, number: int, tokenizer: Tokenizer) -> list[str]:
    """The words of one sequence; `number` is its place in the input, for messages."""
    if isinstance(sentence, str):
        return [token.text for token in tokenizer.tokens(sentence)]
    if not isinstance(sentence, Iterable) or isinstance(sentence, Forbidden):
        raise TextError(
            f"sentence {number} is {type(sentence).__name__}; give a string or a list of strings"
        )
    words = list(sentence)
    if not _is_plain(words):
        _check_words(words, number)
    return words


def _is_plain(words: list[str]) -> bool:
    """Whether there are words alone, without spaces: what is usual is found out quickly."""
    try:
        return " ".join(words).split() == words
    except TypeError:  # something that is no string
        return False


def _check_words(words: list[str], number: int) -> None:
    """Raise TextError for what is no string; warn of a word that holds a space."""
    for position, word in enumerate(words):
        if not isinstance(word, str):
            raise TextError(
                f"sentence {number}, token {position} is {type(word).__name__} {word!r}; "
                f"a sentence is a string or a list of strings"
            )
    spaced = next((word for word in words if word.split() != [word] and word), None)
    if spaced is not None:
        _warn(
            f"sentence {number}: {spaced!r} holds a space and counts as one token; pass the text "
            f"as a string to have it split, or split it yourself"
        )


def _warn(message: str) -> None:
    """Warn in the name of the first caller outside the library: there the text was given."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_library(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, TextWarning, stacklevel=level)


def _is_library(path: str) -> bool:
    return path.startswith(HERE) or "site-packages" in path
