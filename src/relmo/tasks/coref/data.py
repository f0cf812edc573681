"""CoNLL coreference columns -> documents with their groups of mentions.

    #begin document (bc/a/00/a_0001); part 000          # begin document GUM_news_a
    bc/a/00/a_0001  0  0  She  …  Ann  …  (3)            0  She  (3)
    bc/a/00/a_0001  0  1  sang …  Ann  …  -              1  sang _

Two layouts are read: that of CoNLL-2012 (12 columns or more: word fourth, speaker tenth; LitBank
too) and one of three columns (number, word, coreference; OntoGUM). Coreference stands last: `(3`
begins a mention of group 3, `3)` ends one, `(3)` does both, `(3|(4)` and `(3(4)` are two. An end
closes the latest open mention of its group; mentions may nest, cross and run over sentences. A
blank line ends a sentence; a document without any is split by rule. Groups are those of one part:
each part is a document of its own.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from relmo.errors import DataError
from relmo.tasks.data_files import numbered_lines
from relmo.tasks.plain_text import Offsets
from relmo.text.sentences import split_sentences

Mention: TypeAlias = tuple[int, int]
"""First and last word, counted over the whole document."""
Cluster: TypeAlias = tuple[Mention, ...]

NO_WORD = "\ufffd"
"""Stands for a word that is empty in the file, so that positions stay."""
NONE = frozenset(("-", "_", "*", ""))
NUM_SHORT, NUM_LONG = 3, 12
"""Columns of the short layout, and the least of the long one."""
_BEGIN = re.compile(
    r"#\s*begin document\s+(?:\((?P<inner>.*)\)|(?P<name>.*?))(?:;\s*part\s+(?P<part>\d+))?\s*"
)
_END = re.compile(r"#\s*end document\b.*")
_MARK = re.compile(r"\((?P<whole>\d+)\)|\((?P<start>\d+)|(?P<end>\d+)\)")


@dataclass(frozen=True, slots=True)
class Document:
    """A text, and which of its mentions mean the same."""

    name: str
    part: int
    sentences: tuple[tuple[str, ...], ...]
    speakers: tuple[tuple[str, ...], ...] | None
    """Who says each word; None where no word has a speaker."""
    clusters: tuple[Cluster, ...]
    """In order of their first mentions. A cluster of one mention is a singleton."""
    genre: str | None
    """The first folder of the name, or what follows GUM_ in it."""
    places: Offsets = field(default=(), compare=False)

    @property
    def words(self) -> tuple[str, ...]:
        """All words, in order."""
        return tuple(word for sentence in self.sentences for word in sentence)


def read_documents(path: str | Path, keep_singletons: bool = True) -> tuple[Document, ...]:
    """All documents of a file, in order.

    Args:
        path: a file of either layout.
        keep_singletons: whether mentions alone in their cluster stay. LitBank has them on purpose;
            OntoNotes and OntoGUM do not mark them, so that a lone mention there is a slip.
    """
    path = Path(path)
    documents = tuple(_documents(path))
    return documents if keep_singletons else tuple(without_singletons(d) for d in documents)


def without_singletons(document: Document) -> Document:
    """The document without clusters of one mention."""
    return replace(document, clusters=tuple(c for c in document.clusters if len(c) > 1))


@dataclass(slots=True)
class _Draft:
    """A document while it is read."""

    name: str
    part: int
    begun: int
    """Line of its header."""
    words: list[str] = field(default_factory=list)
    speakers: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    """First word of each sentence."""
    open: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Group -> word and line of each mention that has begun."""
    clusters: dict[str, set[Mention]] = field(default_factory=dict)


def _documents(path: Path) -> Iterator[Document]:
    draft: _Draft | None = None
    seen: set[tuple[str, int]] = set()
    for number, line in numbered_lines(path):
        if begin := _BEGIN.fullmatch(line):
            _must(draft is None, path, number, "a document begins before the last has ended")
            draft = _Draft(begin["inner"] or begin["name"] or "", int(begin["part"] or 0), number)
            key = (draft.name, draft.part)
            _must(key not in seen, path, number, f"{draft.name!r} begins twice; rename one")
            seen.add(key)
        elif draft and _END.fullmatch(line):
            yield _finish(draft, path)
            draft = None
        elif draft and not line.strip():
            draft.starts.append(len(draft.words))
        elif draft and not line.startswith("#"):
            _add(draft, line, path, number)
        else:
            stray = line.strip() and not line.startswith("#")
            _must(
                not stray, path, number, "a row outside of a document; '#begin document' is wanted"
            )
    if draft:
        raise DataError(path, draft.begun, f"{draft.name!r} has no '#end document'; is it whole?")


def _must(is_so: bool, path: Path, number: int, what: str) -> None:
    if not is_so:
        raise DataError(path, number, what)


def _add(draft: _Draft, line: str, path: Path, number: int) -> None:
    """Take up a row."""
    cells = line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]
    is_short = len(cells) == NUM_SHORT
    what = f"{len(cells)} columns; {NUM_SHORT} are wanted, or {NUM_LONG} and more as in CoNLL-2012"
    _must(is_short or len(cells) >= NUM_LONG, path, number, what)
    word, speaker = (cells[1], "") if is_short else (cells[3], cells[9])
    draft.words.append(sys.intern(word.strip() or NO_WORD))
    draft.speakers.append("" if speaker in NONE else sys.intern(speaker))
    if cells[-1].strip() not in NONE:
        _add_mentions(draft, cells[-1].strip(), path, number)


def _add_mentions(draft: _Draft, cell: str, path: Path, number: int) -> None:
    """Begin and end mentions at the last word, as a cell says from left to right."""
    here = len(draft.words) - 1
    left = _MARK.sub("", cell).replace("|", "")
    _must(not left, path, number, f"{cell!r} is no coreference; (3  3)  (3)  (3|(4) are wanted")
    for mark in _MARK.finditer(cell):
        group = mark["whole"] or mark["start"] or mark["end"]
        if mark["start"]:
            draft.open.setdefault(group, []).append((here, number))
            continue
        start = here
        if mark["end"]:
            _must(bool(draft.open.get(group)), path, number, f"{group}) ends what never began")
            start, _ = draft.open[group].pop()
        draft.clusters.setdefault(group, set()).add((start, here))


def _finish(draft: _Draft, path: Path) -> Document:
    """The document that has been read."""
    for group, mentions in draft.open.items():
        for _, number in mentions:
            raise DataError(path, number, f"({group} is never ended; {group}) is wanted")
    starts = sorted({start for start in draft.starts if start < len(draft.words)})
    if len(starts) == 1:
        starts = _sentence_starts(draft.words)
    clusters = (tuple(sorted(mentions)) for mentions in draft.clusters.values())
    return Document(
        draft.name,
        draft.part,
        _cut(draft.words, starts),
        _cut(draft.speakers, starts) if any(draft.speakers) else None,
        tuple(sorted(clusters)),
        _genre(draft.name),
    )


def _cut(words: list[str], starts: list[int]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(words[a:b]) for a, b in pairwise([*starts, len(words)]))


def _sentence_starts(words: list[str]) -> list[int]:
    """First word of each sentence of a text without blank lines."""
    places = [0]  # of each word in the text
    for word in words[:-1]:
        places.append(places[-1] + len(word) + 1)
    ends = [end for _, end in split_sentences(" ".join(words))]
    sentence_of = [bisect_right(ends, place) for place in places]
    return [0, *(i for i, (a, b) in enumerate(pairwise(sentence_of), start=1) if a != b)]


def _genre(name: str) -> str | None:
    if "/" in name:
        return name.split("/")[0]
    return name.split("_")[1] if name.startswith("GUM_") else None
