"""Sense-annotated text: the unified XML format with its gold keys, and WordNet's list of senses.

NAME.data.xml       <sentence id=…> of <wf> (a word) and <instance id=… lemma=… pos=…> (a word,
or several parted by spaces, whose sense is asked for)
NAME.gold.key.txt   an instance's id and one sense key or more, each of which is right
index.sense         WordNet's: sense key, synset, number of the sense, count
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.parsers import expat

from relmo.errors import DataError
from relmo.tasks.data_files import numbered_lines

PARTS_OF_SPEECH = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
SENSE_TYPES = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}
"""The digit after a sense key's %; 5 is an adjective that stands with another."""

Entry = tuple[str, str]
"""Lemma and part of speech (n, v, a, r): what has senses."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A word, or several, whose sense is asked for."""

    id: str
    entry: Entry
    start: int
    end: int
    """Words of the sentence, the one after the last."""
    keys: tuple[str, ...] = ()
    """The right senses; none where the key file does not say."""


@dataclass(frozen=True, slots=True)
class SenseSentence:
    """A sentence and its instances."""

    document: str
    words: tuple[str, ...]
    instances: tuple[Instance, ...]


def read_senses(data: Path, keys: Path) -> list[SenseSentence]:
    """The sentences of a data file, their instances with the keys of the key file."""
    sentences = _DataReader(data).read()
    gold = _read_keys(keys, {i.id for sentence in sentences for i in sentence.instances})
    return [
        replace(
            sentence,
            instances=tuple(replace(i, keys=gold.get(i.id, ())) for i in sentence.instances),
        )
        for sentence in sentences
    ]


def read_wordnet(path: Path) -> dict[Entry, list[str]]:
    """The sense keys of each entry from WordNet's index.sense, its first sense first."""
    numbered: dict[Entry, list[tuple[int, str]]] = defaultdict(list)
    for number, line in numbered_lines(path):
        cells = line.split()
        lemma, _, rest = cells[0].partition("%") if cells else ("", "", "")
        if len(cells) != 4 or rest[:1] not in SENSE_TYPES or not cells[2].isdecimal():
            what = "a sense key, a synset, the sense's number and its count are needed"
            raise DataError(path, number, f"{what}; is this WordNet's index.sense?")
        numbered[lemma, SENSE_TYPES[rest[0]]].append((int(cells[2]), cells[0]))
    if not numbered:
        raise DataError(path, 1, "no sense stands there; is this WordNet's index.sense?")
    return {entry: [key for _, key in sorted(senses)] for entry, senses in numbered.items()}


class _DataReader:
    """A file of the unified format, read as its elements come: their lines can then be named."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[SenseSentence] = []
        self.ids: set[str] = set()
        self.document = ""
        self.words: list[str] | None = None
        self.instances: list[Instance] = []
        self.attributes: dict[str, str] = {}
        self.text: list[str] | None = None
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters

    def read(self) -> list[SenseSentence]:
        try:
            for _, line in numbered_lines(self.path):
                self.parser.Parse(line + "\n", False)
            self.parser.Parse("", True)
        except expat.ExpatError as error:
            raise DataError(self.path, error.lineno, f"not well-formed XML ({error})") from error
        if not any(sentence.instances for sentence in self.found):
            raise DataError(self.path, 1, "no instance in the file; is it of the unified format?")
        return self.found

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "text":
            self.document = attributes.get("id", "")
        elif name == "sentence":
            self.words, self.instances = [], []
        elif name in ("wf", "instance"):
            if self.words is None or self.text is not None:
                raise self._error(f"<{name}> stands outside a sentence or within a word")
            self.attributes, self.text = attributes, []
        elif self.words is not None:
            raise self._error(f"<{name}> is not known in a sentence; <wf> and <instance> are")

    def _characters(self, text: str) -> None:
        if self.text is not None:
            self.text.append(text)

    def _end(self, name: str) -> None:
        if name == "sentence" and self.words is not None:
            sentence = SenseSentence(self.document, tuple(self.words), tuple(self.instances))
            self.found.append(sentence)
            self.words = None
        elif self.text is not None and self.words is not None:
            words = "".join(self.text).split()
            if not words:
                raise self._error(f"<{name}> holds no word")
            if name == "instance":
                self.instances.append(self._instance(len(self.words), len(words)))
            self.words += words
            self.text = None

    def _instance(self, start: int, length: int) -> Instance:
        found = [self.attributes.get(name, "") for name in ("id", "lemma", "pos")]
        if not all(found) or found[2] not in PARTS_OF_SPEECH:
            known = ", ".join(PARTS_OF_SPEECH)
            raise self._error(f"an instance needs an id, a lemma and a pos of {known}")
        if found[0] in self.ids:
            raise self._error(f"a second instance has the id {found[0]}")
        self.ids.add(found[0])
        entry = found[1].lower(), PARTS_OF_SPEECH[found[2]]
        return Instance(found[0], entry, start, start + length)

    def _error(self, what: str) -> DataError:
        return DataError(self.path, self.parser.CurrentLineNumber, what)


def _read_keys(path: Path, known: set[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for number, line in numbered_lines(path):
        cells = line.split()
        if not cells:
            continue
        if len(cells) < 2 or not all("%" in key for key in cells[1:]):
            raise DataError(path, number, "an instance's id and its sense keys are needed")
        if cells[0] not in known:
            raise DataError(path, number, f"no instance {cells[0]} in the data file beside it")
        if cells[0] in found:
            raise DataError(path, number, f"the keys of {cells[0]} are given a second time")
        found[cells[0]] = tuple(cells[1:])
    if not found:
        raise DataError(path, 1, "no keys in the file; an instance's id and its sense keys needed")
    return found


def spans_of(sentences: Sequence[SenseSentence]) -> list[list[tuple[int, int]]]:
    """Where the instances with keys stand, sentence by sentence."""
    return [[(i.start, i.end) for i in s.instances if i.keys] for s in sentences]


def instances_of(sentences: Sequence[SenseSentence]) -> list[Instance]:
    """All instances with keys, in the order of `spans_of`."""
    return [i for sentence in sentences for i in sentence.instances if i.keys]
