"""Labeled texts: sentiment trees, and tables of any classes in CSV, TSV, JSONL or Parquet.

(3 (2 It) (3 (3 shines) (2 .)))  ->  LabelledText(("It", "shines", "."), "3")
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from relmo.errors import ConfigError, DataError
from relmo.tasks.data_files import (
    WHITE,
    Tokenize,
    not_empty,
    numbered_lines,
    split_at_spaces,
)
from relmo.tasks.tables import DEFAULT_COLUMNS, Columns, filled_rows

TREE_LABELS = ("0", "1", "2", "3", "4")
"""Labels of a tree, from very negative to very positive; 2 is neutral."""
POLARITIES = {"0": "negative", "1": "negative", "3": "positive", "4": "positive"}
"""Label of a tree -> its polarity; a neutral one has none."""

BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
"""How the Penn Treebank writes brackets."""
NODE = re.compile(
    r"""[ \t]* (?:
        \( [ \t]* (?P<leaf>[^ \t()]+) [ \t]+ (?P<word>[^ \t()]+) [ \t]* \)  # (2 word)
        | \( [ \t]* (?P<label>[^ \t()]+) (?=[ \t]*\()                       # (2 before a "("
        | (?P<end>\))
    ) [ \t]*""",
    re.VERBOSE,
)


WINDOW = 128
"""Most words that a model reads at once; longer texts are read in several windows."""
SENTENCE_ENDS = {".", "!", "?", "…", "。"}


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text and its class."""

    words: tuple[str, ...]
    label: str


def windows(words: tuple[str, ...], limit: int = WINDOW) -> list[tuple[str, ...]]:
    """A text cut into windows of at most `limit` words, where sentences end if possible.

    A window that is cut has at least half of the words.
    """
    found: list[tuple[str, ...]] = []
    first = 0
    while len(words) - first > limit:
        last = first + limit
        places = range(last, first + limit // 2, -1)
        past = next((place for place in places if words[place - 1] in SENTENCE_ENDS), last)
        found.append(words[first:past])
        first = past
    return [*found, words[first:]]


def read_trees(path: str | Path, phrases: bool = False) -> list[LabelledText]:
    """The sentences of a file with one tree per line, in their order.

    With `phrases`, the phrases of each tree follow its sentence, each distinct phrase of the file
    once; sentences are always kept.
    """
    found: list[LabelledText] = []
    seen: set[LabelledText] = set()
    for number, line in numbered_lines(path):
        if not line.strip(WHITE):
            continue
        parts = _phrases(path, number, line)
        found.append(next(parts))
        if phrases:
            seen.add(found[-1])
            new = [part for part in dict.fromkeys(parts) if part not in seen]
            seen.update(new)
            found += new
    return not_empty(path, found, "trees; expected one")


def polarity_of(label: str) -> str | None:
    """The polarity of a tree's label, "negative" or "positive"; None for the neutral one."""
    if label not in TREE_LABELS:
        raise ConfigError(f"label {label!r} has no polarity; expected a tree label from 0 to 4")
    return POLARITIES.get(label)


def read_table(
    path: str | Path,
    tokenize: Tokenize = split_at_spaces,
    columns: Columns = DEFAULT_COLUMNS,
) -> list[LabelledText]:
    """The texts of a CSV, TSV, JSONL or Parquet file; its suffix names the format.

    Args:
        path: the file. CSV and TSV begin with the names of their columns. A label is any string; a
            number or truth value as JSON writes it. Rows without a text or a label are skipped
            with a warning.
        tokenize: splits a text into words; by default at spaces, for texts already tokenized.
        columns: which ones to read.
    """
    text, label = columns
    assert text is not None
    assert label is not None
    rows = filled_rows(path, (text, label))
    found = [LabelledText(row.words(text, tokenize), row.text(label)) for row in rows]
    return not_empty(path, found, "texts; expected one")


def plain_word(word: str) -> str:
    r"""The word as written outside the Penn Treebank: `-LRB-` -> `(`, `\/` -> `/`."""
    return BRACKETS.get(word) or word.replace(r"\/", "/").replace(r"\*", "*")


@dataclass(slots=True)
class _Node:
    """A phrase of the tree that is being read."""

    label: str
    first: int
    past: int


def _phrases(path: str | Path, number: int, line: str) -> Iterator[LabelledText]:
    """Every phrase of a tree, the whole sentence first, a phrase before its parts."""
    words: list[str] = []
    nodes: list[_Node] = []
    unclosed: list[_Node] = []
    for found in _scan(path, number, line):
        if not unclosed and (nodes or found["end"]):
            what = "unmatched ')'" if found["end"] else "a second tree begins"
            raise DataError(path, number, f"{what}; expected one tree per line")
        if found["end"]:
            unclosed.pop().past = len(words)
            continue
        node = _Node(found["leaf"] or found["label"], len(words), len(words) + 1)
        nodes.append(node)
        if found["word"]:
            words.append(plain_word(found["word"]))
        else:
            unclosed.append(node)
    if unclosed:
        raise DataError(path, number, f"{len(unclosed)} unclosed brackets; is the line cut off?")
    return (LabelledText(tuple(words[node.first : node.past]), node.label) for node in nodes)


def _scan(path: str | Path, number: int, line: str) -> Iterator[re.Match[str]]:
    """The pieces of a tree: leaves, beginnings of larger phrases, ends of those."""
    place = 0
    while place < len(line):
        found = NODE.match(line, place)
        if found is None:
            what = f"{line[place : place + 30]!r} at character {place + 1} is neither (label word)"
            raise DataError(path, number, f"{what} nor (label (…) (…)); expected one tree per line")
        label = found["leaf"] or found["label"]
        if label not in (None, *TREE_LABELS):
            raise DataError(path, number, f"label {label!r}; expected a tree label from 0 to 4")
        yield found
        place = found.end()
