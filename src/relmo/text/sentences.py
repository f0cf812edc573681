"""Split a text into sentences by rule: where each one starts and ends.

    split_sentences("He left. Mr. Hill stayed.")  ->  [(0, 8), (9, 25)]

A sentence ends after `. ! ? …` and any closing quotes if white space follows, and then something
that can start a sentence: anything but a lower-case letter. It does not end after an abbreviation,
an initial or a list number (`1. Introduction`). `。！？` need no space after them. A blank line
always ends a sentence; a single newline counts as a space.
"""

from __future__ import annotations

import re

from relmo.text.tokenize import BEFORE_NUMBER, MAY_END, MID_SENTENCE, STARTERS, TITLES

_NARROW = ".!?…؟۔।॥"
_WIDE = "。！？｡"
_CLOSERS = "\"'”’»)\\]}›」』）】》〉_"

# A run of marks is tried at its first character only, so the time is linear.
_BOUNDARY = re.compile(
    rf"""
      (?P<blank>   \n\s*\n )
    | (?P<wide>    [{_WIDE}][{_WIDE}{_NARROW}]*+ [{_CLOSERS}]*+ )
    | (?P<narrow>  (?<![{_NARROW}])(?P<mark> [{_NARROW}]++ ) [{_CLOSERS}]*+ (?=\s) )
    """,
    re.VERBOSE,
)
_WORD_BEFORE = re.compile(r"[^\s\"'“‘«(\[{_—–\-]*+\Z")
_WORD_AFTER = re.compile(r"\s*+[^\w\s]*+_*+(?P<word>\w*+)(?P<period>\.?)")
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")
_LIST_NUMBER = re.compile(r"\W*+(?:\d{1,3}+|[A-Za-z]|[ivxIVX]{1,5}+)")
_LONGEST = 24  # characters examined of the word before a period

_NEVER = frozenset((TITLES + " " + MID_SENTENCE + " e.g i.e").split())
_SELDOM = frozenset(MAY_END.split())
_BEFORE_NUMBER = frozenset(BEFORE_NUMBER.split())
_STARTERS = frozenset(STARTERS.split())


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of each sentence, in order; only white space is outside them."""
    spans: list[tuple[int, int]] = []
    start = 0
    for boundary in _BOUNDARY.finditer(text):
        if boundary["narrow"] and not _ends_sentence(text, start, boundary):
            continue
        _add_stripped(spans, text, start, boundary.end())
        start = boundary.end()
    _add_stripped(spans, text, start, len(text))
    return spans


def _add_stripped(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    """Add the span without surrounding white space, unless nothing is left."""
    piece = text[start:end]
    if stripped := piece.strip():
        start += len(piece) - len(piece.lstrip())
        spans.append((start, start + len(stripped)))


def _ends_sentence(text: str, start: int, boundary: re.Match[str]) -> bool:
    """Whether the sentence that starts at `start` ends at this mark."""
    after = _WORD_AFTER.match(text, boundary.end())
    assert after is not None  # it also matches nothing
    if after["word"][:1].islower():
        return False
    if boundary["mark"] != ".":
        return True
    first = max(start, boundary.start() - _LONGEST)
    if first == start and _LIST_NUMBER.fullmatch(text, first, boundary.start()):
        return False
    word = _WORD_BEFORE.search(text, first, boundary.start())
    assert word is not None
    return not _is_abbreviation(word[0], after["word"], bool(after["period"]))


def _is_abbreviation(word: str, following: str, is_dotted: bool) -> bool:
    """Whether the period after a word such as `Mr` or `U.S` only abbreviates it.

    `following` is the next word, or ""; `is_dotted` if that ends in a period, as an initial does.
    """
    if word in _NEVER or (word in _BEFORE_NUMBER and following[:1].isdigit()):
        return True
    if word == "I":
        return is_dotted
    is_initial = len(word) == 1 and word.isupper()
    can_abbreviate = is_initial or word in _SELDOM or _DOTTED.fullmatch(word) is not None
    return can_abbreviate and (is_dotted or following not in _STARTERS)
