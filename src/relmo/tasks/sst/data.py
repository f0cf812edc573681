"""Labelled texts: sentiment trees, and tables of any classes in CSV, TSV or JSONL.

(3 (2 It) (3 (3 shines) (2 .)))  ->  LabelledText(("It", "shines", "."), "3")
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from relmo.errors import ConfigError, DataError
from relmo.tasks.data_files import WHITE, numbered_lines

LABELS = ("0", "1", "2", "3", "4")
"""Labels of a tree, from very negative to very positive; 2 is neutral."""
SIDES = {"0": "negative", "1": "negative", "3": "positive", "4": "positive"}
"""Label of a tree -> its side; a neutral one has none."""

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
WORD = re.compile(r"[^ \t\n\r\f\v]+")

Format = Literal["csv", "tsv", "jsonl"]
FORMATS: dict[str, Format] = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl"}
Tokenize = Callable[[str], list[str]]
"""Splits a text into words."""
Row = Mapping[str, object]
"""Name of a column -> what stands there."""

LONGEST = 200
"""Characters of a table's names that a message shows."""


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text and its class."""

    words: tuple[str, ...]
    label: str


def split_at_spaces(text: str) -> list[str]:
    """Words of a text that is already split; a no-break space stays inside its word."""
    return WORD.findall(text)


def read_trees(path: str | Path, phrases: bool = False) -> list[LabelledText]:
    """The sentences of a file with one tree per line, in their order.

    With `phrases`, the phrases of each tree follow its sentence, each distinct phrase of the file
    once; sentences are never left out.
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
    return _not_empty(path, found, "tree")


def without_neutral(texts: Iterable[LabelledText]) -> list[LabelledText]:
    """The task of two classes, "negative" and "positive": neutral trees are left out."""
    sides = ((text, side_of(text.label)) for text in texts)
    return [LabelledText(text.words, side) for text, side in sides if side is not None]


def side_of(label: str) -> str | None:
    """The side of a tree's label, "negative" or "positive"; None for the neutral one."""
    if label not in LABELS:
        raise ConfigError(f"label {label!r} has no side; the labels of trees are 0 to 4")
    return SIDES.get(label)


def read_table(
    path: str | Path,
    text: str = "text",
    label: str = "label",
    tokenize: Tokenize = split_at_spaces,
) -> list[LabelledText]:
    """The texts of a CSV, TSV or JSONL file, by its suffix; blank lines are passed over.

    Args:
        path: the file; CSV and TSV begin with the names of their columns. CSV may quote its cells,
            in TSV a quote is a character like any other.
        text: name of the column of texts.
        label: name of the column of classes: any string; a number or truth value as JSON writes it.
        tokenize: splits a text into words; texts already split need nothing here.
    """
    found: list[LabelledText] = []
    for number, row in rows_of(path, format_of(path)):
        words = words_in(path, number, row, text, tokenize)
        found.append(LabelledText(words, cell(path, number, row, label)))
    return _not_empty(path, found, "text")


def rows_of(path: str | Path, kind: Format) -> Iterator[tuple[int, Row]]:
    """(line it begins at, row) for each row of a table."""
    return _json_rows(path) if kind == "jsonl" else _table_rows(path, kind)


def format_of(path: str | Path) -> Format:
    """The format that a file's suffix names; one of compression is looked past."""
    name = Path(path).name.lower()
    for packed in (".gz", ".xz", ".zst"):
        name = name.removesuffix(packed)
    if (suffix := Path(name).suffix) not in FORMATS:
        known = ", ".join(FORMATS)
        raise ConfigError(f"{path}: a name that ends in {suffix!r} tells no format; use {known}")
    return FORMATS[suffix]


def words_in(
    path: str | Path, number: int, row: Row, name: str, tokenize: Tokenize
) -> tuple[str, ...]:
    """The words of a named column; DataError if there are none."""
    words = tuple(tokenize(cell(path, number, row, name)))
    if not words:
        raise DataError(path, number, f"{name!r} has no words; fill it in or delete the row")
    return words


def cell(path: str | Path, number: int, row: Row, name: str) -> str:
    """What stands in a named column, without spaces around it; DataError if nothing does."""
    if name not in row:
        there = ", ".join(repr(each) for each in row) or "none"
        there = there if len(there) <= LONGEST else f"{there[:LONGEST]} …"
        raise DataError(path, number, f"no column {name!r}; there are {there}: rename one of these")
    value = row[name]
    if isinstance(value, bool | int | float):
        value = json.dumps(value)
    if not isinstance(value, str):
        raise DataError(path, number, f"{name!r} is {json.dumps(value)[:40]}; give a string")
    if not (text := value.strip(" \t\n\r\f\v")):
        raise DataError(path, number, f"{name!r} is empty; fill it in or delete the row")
    return text


def plain_word(word: str) -> str:
    r"""The word as it is written outside the Penn Treebank: `-LRB-` -> `(`, `\/` -> `/`."""
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
            what = "')' closes nothing" if found["end"] else "a second tree begins"
            raise DataError(path, number, f"{what}; write one tree per line")
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
        raise DataError(path, number, f"brackets left open: {len(unclosed)}; is the line cut off?")
    return (LabelledText(tuple(words[node.first : node.past]), node.label) for node in nodes)


def _scan(path: str | Path, number: int, line: str) -> Iterator[re.Match[str]]:
    """The pieces of a tree: leaves, beginnings of larger phrases, ends of those."""
    place = 0
    while place < len(line):
        found = NODE.match(line, place)
        if found is None:
            raise DataError(
                path,
                number,
                f"{line[place : place + 30]!r} at character {place + 1} is neither (label word) "
                f"nor (label (…) (…)); write one tree per line",
            )
        label = found["leaf"] or found["label"]
        if label not in (None, *LABELS):
            raise DataError(path, number, f"label {label!r}; the labels of trees are 0 to 4")
        yield found
        place = found.end()


def _json_rows(path: str | Path) -> Iterator[tuple[int, Row]]:
    for number, line in numbered_lines(path):
        if not line.strip(WHITE):
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(path, number, f"not valid JSON ({error})") from error
        if not isinstance(row, dict):
            raise DataError(path, number, f"{line[:30]!r} is no object; write one {{…}} per line")
        yield number, row


def _table_rows(path: str | Path, kind: Format) -> Iterator[tuple[int, Row]]:
    rows = _csv_rows(path) if kind == "csv" else _tsv_rows(path)
    first, names = next(rows, (1, []))
    if len(set(names)) < len(names):
        raise DataError(path, first, f"two columns have the same name: {', '.join(names)}")
    for number, cells in rows:
        if len(cells) != len(names):
            what = f"{len(cells)} cells, but {len(names)} names of columns in line {first}"
            raise DataError(path, number, f"{what}; give each row as many")
        yield number, dict(zip(names, cells, strict=True))


def _tsv_rows(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in numbered_lines(path):
        if line.strip(WHITE):
            yield number, line.split("\t")


def _csv_rows(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((line + "\n" for _, line in numbered_lines(path)), strict=True)
    number = 1
    try:
        for cells in reader:
            if cells:  # a blank line has none
                yield number, cells
            number = reader.line_num + 1
    except csv.Error as error:
        raise DataError(path, number, f"not valid CSV ({error}); are all quotes closed?") from error


def _not_empty(path: str | Path, found: list[LabelledText], what: str) -> list[LabelledText]:
    if not found:
        raise DataError(path, 1, f"no {what} in the file; give one per line")
    return found
