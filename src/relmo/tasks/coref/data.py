"""CoNLL coreference columns -> documents with their clusters of mentions.

    #begin document (bc/a/00/a_0001); part 000          # begin document GUM_news_a
    bc/a/00/a_0001  0  0  She  …  Ann  …  (3)            0  She  (3)
    bc/a/00/a_0001  0  1  sang …  Ann  …  -              1  sang _

Two layouts are read: that of CoNLL-2012 (12 columns or more, the word fourth; LitBank too) and one
of three columns (number, word, coreference; OntoGUM). Coreference is the last column:
`(3` begins a mention of cluster 3, `3)` ends one, `(3)` does both, `(3|(4)` and `(3(4)` are two. An
end closes the latest open mention of its cluster; mentions may nest, cross and span sentences. A
blank line ends a sentence; a document without any is split by rule. Cluster numbers are local to a
part: each part is a document of its own.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from relmo.errors import DataError
from relmo.tasks.data_files import numbered_lines, split_cells
from relmo.tasks.plain_text import Places
from relmo.text.sentences import split_sentences

Mention = tuple[int, int]
"""First and last word, counted over the whole document."""
Cluster = tuple[Mention, ...]

NO_WORD = "\ufffd"
"""Replaces an empty word, so that positions are kept."""
NONE = frozenset(("-", "_", "*", ""))
NUM_SHORT, NUM_LONG = 3, 12
"""Columns of the short layout, and the minimum of the long one."""
_BEGIN = re.compile(
    r"#\s*begin document\s+(?:\((?P<inner>.*)\)|(?P<name>.*?))(?:;\s*part\s+(?P<part>\d+))?\s*"
)
_END = re.compile(r"#\s*end document\b.*")
_MARK = re.compile(r"\((?P<whole>\d+)\)|\((?P<start>\d+)|(?P<end>\d+)\)")


@dataclass(frozen=True, slots=True)
class CorefDocument:
    """A text, and which of its mentions corefer."""

    name: str
    part: int
    sentences: tuple[tuple[str, ...], ...]
    clusters: tuple[Cluster, ...] = ()
    """In order of their first mentions. A cluster of one mention is a singleton."""
    genre: str | None = None
    """The first folder of the name, or the part of the name after GUM_."""
    places: Places | None = field(default=None, compare=False)

    @property
    def words(self) -> tuple[str, ...]:
        """All words, in order."""
        return tuple(word for sentence in self.sentences for word in sentence)


def read_documents(path: str | Path) -> Iterator[CorefDocument]:
    """All documents of a file of either layout, in order."""
    draft: _Draft | None = None
    seen: set[tuple[str, int]] = set()
    for number, line in numbered_lines(path):
        if begin := _BEGIN.fullmatch(line):
            if draft:
                raise DataError(path, number, "a document begins before the previous one ends")
            name, part = begin["inner"] or begin["name"] or "", int(begin["part"] or 0)
            if (name, part) in seen:
                raise DataError(path, number, f"{name!r} begins twice; rename one")
            seen.add((name, part))
            draft = _Draft(path, name, part, number)
        elif draft and _END.fullmatch(line):
            yield draft.finish()
            draft = None
        elif draft and not line.strip():
            draft.starts.append(len(draft.words))
        elif draft and not line.startswith("#"):
            draft.add(number, split_cells(line))
        elif line.strip() and not line.startswith("#"):
            raise DataError(path, number, "a row outside of a document; expected '#begin document'")
    if draft:
        what = f"{draft.name!r} has no '#end document'; is the file complete?"
        raise DataError(path, draft.begun, what)


def without_singletons(document: CorefDocument) -> CorefDocument:
    """The document without clusters of one mention."""
    return replace(document, clusters=tuple(c for c in document.clusters if len(c) > 1))


@dataclass(slots=True)
class _Draft:
    """A document that is being read."""

    path: str | Path
    name: str
    part: int
    begun: int
    """Line of its header."""
    words: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    """First word of each sentence."""
    open: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """Cluster -> word and line of each mention that has begun."""
    clusters: dict[str, set[Mention]] = field(default_factory=lambda: defaultdict(set))

    def add(self, number: int, cells: list[str]) -> None:
        """Add a row, the line of that number."""
        if len(cells) != NUM_SHORT and len(cells) < NUM_LONG:
            wanted = f"expected {NUM_SHORT}, or at least {NUM_LONG} as in CoNLL-2012"
            raise DataError(self.path, number, f"{len(cells)} columns, {wanted}")
        word = cells[1] if len(cells) == NUM_SHORT else cells[3]
        self.words.append(sys.intern(word.strip() or NO_WORD))
        if cells[-1].strip() not in NONE:
            self._add_mentions(number, cells[-1].strip())

    def _add_mentions(self, number: int, cell: str) -> None:
        """Begin and end mentions at the last word, from left to right."""
        here = len(self.words) - 1
        if _MARK.sub("", cell).replace("|", ""):
            what = f"{cell!r} is not a coreference cell; expected (3  3)  (3)  (3|(4)"
            raise DataError(self.path, number, what)
        for mark in _MARK.finditer(cell):
            cluster = mark["whole"] or mark["start"] or mark["end"]
            if mark["start"]:
                self.open[cluster].append((here, number))
            elif mark["whole"]:
                self.clusters[cluster].add((here, here))
            elif self.open[cluster]:
                start, _ = self.open[cluster].pop()
                self.clusters[cluster].add((start, here))
            else:
                raise DataError(self.path, number, f"{cluster}) ends a mention never begun")

    def finish(self) -> CorefDocument:
        """The document that has been read."""
        for cluster, mentions in self.open.items():
            for _, number in mentions:
                raise DataError(
                    self.path, number, f"({cluster} is never ended; expected {cluster})"
                )
        starts = sorted({start for start in self.starts if start < len(self.words)})
        if len(starts) == 1:
            starts = _sentence_starts(self.words)
        bounds = pairwise([*starts, len(self.words)])
        sentences = tuple(tuple(self.words[first:past]) for first, past in bounds)
        clusters = sorted(tuple(sorted(mentions)) for mentions in self.clusters.values())
        return CorefDocument(self.name, self.part, sentences, tuple(clusters), _genre(self.name))


def _sentence_starts(words: list[str]) -> list[int]:
    """First word of each sentence of a text without blank lines."""
    places = [0]  # offset of each word in the text
    for word in words[:-1]:
        places.append(places[-1] + len(word) + 1)
    ends = [end for _, end in split_sentences(" ".join(words))]
    sentence_of = [bisect_right(ends, place) for place in places]
    return [0, *(i for i, (a, b) in enumerate(pairwise(sentence_of), start=1) if a != b)]


def _genre(name: str) -> str | None:
    if "/" in name:
        return name.split("/")[0]
    return name.split("_")[1] if name.startswith("GUM_") else None
