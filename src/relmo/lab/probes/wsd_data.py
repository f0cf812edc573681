"""Sense-annotated text: the unified XML format with its gold keys, and WordNet's sense index.

NAME.data.xml       <sentence id=…> of <wf> (a word) and <instance id=… lemma=… pos=…> (one or
more words, separated by spaces, to disambiguate)
NAME.gold.key.txt   an instance's id and one or more sense keys, each of which is correct
index.sense         WordNet's: sense key, synset, sense number, count
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from relmo.errors import DataError
from relmo.lab.probes.inputs import ProbeText, ProbeWords
from relmo.tasks.data_files import numbered_lines

PARTS_OF_SPEECH = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
SENSE_TYPES = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}
"""The digit after a sense key's %; 5 is a satellite adjective."""
WORD_TAGS = ("wf", "instance")

Entry = tuple[str, str]
"""Lemma and part of speech (n, v, a, r): what WordNet lists senses for."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One or more words to disambiguate."""

    id: str
    entry: Entry
    start: int
    end: int
    """Positions of the first word and of the one after the last."""
    keys: tuple[str, ...] = ()
    """The correct senses."""


@dataclass(slots=True)
class SenseSentence:
    """A sentence and its instances."""

    document: str
    words: ProbeWords
    instances: list[Instance]


def read_senses(data: Path, keys: Path) -> list[SenseSentence]:
    """The sentences of a data file; instances that the key file does not list are left out."""
    sentences = _read_sentences(data)
    gold = _read_keys(keys, {i.id for sentence in sentences for i in sentence.instances})
    for sentence in sentences:
        known = [i for i in sentence.instances if i.id in gold]
        sentence.instances = [replace(i, keys=gold[i.id]) for i in known]
    return sentences


def read_wordnet(path: Path) -> dict[Entry, list[str]]:
    """The sense keys of each entry from WordNet's index.sense, in WordNet's order."""
    numbered: dict[Entry, list[tuple[int, str]]] = defaultdict(list)
    for number, line in numbered_lines(path):
        cells = line.split()
        lemma, _, rest = cells[0].partition("%") if cells else ("", "", "")
        if len(cells) != 4 or rest[:1] not in SENSE_TYPES or not cells[2].isdecimal():
            reason = "expected a sense key, a synset, the sense's number and its count"
            raise DataError(path, number, f"{reason}; is this WordNet's index.sense?")
        numbered[lemma, SENSE_TYPES[rest[0]]].append((int(cells[2]), cells[0]))
    if not numbered:
        raise DataError(path, 1, "contains no senses; is this WordNet's index.sense?")
    return {entry: [key for _, key in sorted(senses)] for entry, senses in numbered.items()}


def annotated_text(sentences: Sequence[SenseSentence]) -> ProbeText:
    """The sentences' words, and the spans of their instances."""
    spans = [[(i.start, i.end) for i in sentence.instances] for sentence in sentences]
    return [sentence.words for sentence in sentences], spans


def _read_sentences(path: Path) -> list[SenseSentence]:
    found: list[SenseSentence] = []
    ids: set[str] = set()
    document = ""
    words: list[str] | None = None  # of the sentence being read; None between sentences
    instances: list[Instance] = []
    for number, event, element in _elements(path):
        tag = element.tag
        if event == "start" and tag == "text":
            document = element.get("id", "")
        elif event == "start" and tag == "sentence":
            words, instances = [], []
        elif event == "end" and tag == "sentence" and words is not None:
            found.append(SenseSentence(document, tuple(words), instances))
            words = None
            element.clear()  # frees the memory of its words
        elif event == "start" and (tag in WORD_TAGS) != (words is not None):
            where = "outside a sentence" if words is None else "unknown inside a sentence"
            raise DataError(path, number, f"<{tag}> is {where}; expected <wf> or <instance> there")
        elif event == "end" and tag in WORD_TAGS and words is not None:
            own = (element.text or "").split()
            if not own or len(element):
                raise DataError(path, number, f"<{tag}> must contain words and nothing else")
            if tag == "instance":
                instance = _parse_instance(path, number, element, len(words), len(own))
                if instance.id in ids:
                    raise DataError(path, number, f"duplicate instance id {instance.id}")
                ids.add(instance.id)
                instances.append(instance)
            words += own
    if not ids:
        raise DataError(path, 1, "contains no instances; is it in the unified format?")
    return found


def _elements(path: Path) -> Iterator[tuple[int, str, ElementTree.Element]]:
    """Line number, "start" or "end", and element, as they are parsed line by line."""
    parser: ElementTree.XMLPullParser[Any] = ElementTree.XMLPullParser(("start", "end"))
    try:
        for number, line in numbered_lines(path):
            parser.feed(line + "\n")
            events: Iterator[Any] = parser.read_events()
            yield from ((number, event, element) for event, element in events)
        parser.close()
    except ElementTree.ParseError as error:
        reason = f"not well-formed XML ({error})"
        raise DataError(path, error.position[0], reason) from error


def _parse_instance(
    path: Path, number: int, element: ElementTree.Element, start: int, length: int
) -> Instance:
    name, lemma, pos = (element.get(key, "") for key in ("id", "lemma", "pos"))
    if not name or not lemma or pos not in PARTS_OF_SPEECH:
        known = ", ".join(PARTS_OF_SPEECH)
        raise DataError(path, number, f"an instance needs an id, a lemma and a pos of {known}")
    return Instance(name, (lemma.lower(), PARTS_OF_SPEECH[pos]), start, start + length)


def _read_keys(path: Path, known: set[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for number, line in numbered_lines(path):
        if not (cells := line.split()):
            continue
        if len(cells) < 2 or not all("%" in key for key in cells[1:]):
            raise DataError(path, number, "expected an instance's id and its sense keys")
        if cells[0] not in known:
            raise DataError(path, number, f"no instance {cells[0]} in the data file beside it")
        if cells[0] in found:
            raise DataError(path, number, f"duplicate keys for instance {cells[0]}")
        found[cells[0]] = tuple(cells[1:])
    if not found:
        raise DataError(path, 1, "contains no keys; expected instances' ids and sense keys")
    return found
