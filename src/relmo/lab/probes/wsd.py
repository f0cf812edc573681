"""Word senses by their examples in SemCor (Table 5 of the paper).

An instance gets the sense whose training examples are nearest to its vector. How "nearest" is
computed, the `Rule`, is chosen on held-out documents of SemCor; the test sets choose nothing.

NAME.data.xml       <sentence id=…> of <wf> (a word) and <instance id=… lemma=… pos=…> (one or
more words, separated by spaces, to disambiguate)
NAME.gold.key.txt   an instance's id and one or more sense keys, each of which is correct
index.sense         WordNet's: sense key, synset, sense number, count
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from relmo.config import Count, NonNegative, Range, Settings
from relmo.errors import ConfigError, DataError
from relmo.lab.probes.inputs import ProbeInputs, ProbeResult, each_reading, find_files, need_file
from relmo.progress import progress, working
from relmo.tasks.data_files import numbered_lines
from relmo.types import Vectors

TRAIN = "semcor"
NOT_TESTS = (TRAIN, "semcor+omsti", "omsti", "ALL")
"""Data files that are not test sets; ALL is the union of the test sets, which is made here."""
DATA, KEYS, WORDNET = ".data.xml", ".gold.key.txt", "index.sense"
PARTS_OF_SPEECH = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
SENSE_TYPES = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}
"""The digit after a sense key's %; 5 is a satellite adjective."""
WORD_TAGS = ("wf", "instance")

Entry = tuple[str, str]
"""Lemma and part of speech (n, v, a, r): what WordNet lists senses for."""
Centre = Literal["none", "all", "entry"]
WordNet = Mapping[Entry, Sequence[str]]
Answer = str | None
"""A sense key, or None if neither training nor WordNet has the word."""


class Instance(NamedTuple):
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
    words: tuple[str, ...]
    instances: list[Instance]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How a sense is chosen from cosines; ties go to the more frequent sense."""

    kind: Literal["centroid", "neighbours"] = "centroid"
    """By the highest cosine to the sense's mean vector + prior * log(1 + number of examples), or
    by a majority vote of the nearest examples."""
    centre: Centre = "none"
    """What is subtracted from all vectors: nothing, their mean, or the mean of the entry's."""
    prior: float = 0.0
    """For centroids: the weight of the log frequency."""
    votes: int = 0
    """For neighbours: the number of examples that vote."""


PLAIN = Rule()
"""The rule of the paper: the nearest centroid."""


@dataclass(frozen=True, kw_only=True)
class WsdSettings(Settings):
    """The rules to choose from, and the documents of SemCor held out for that choice."""

    held_out: Annotated[int, Range(least=2)] = 10
    """Every n-th document is held out to choose the rule, then used for training as well."""
    centres: tuple[Centre, ...] = ("none", "all", "entry")
    priors: tuple[NonNegative, ...] = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.5)
    votes: tuple[Count, ...] = (1, 3, 5, 10, 20, 30)

    def rules(self) -> list[Rule]:
        """All rules to try, the paper's first."""
        centroids = [Rule(centre=c, prior=p) for c, p in product(self.centres, self.priors)]
        neighbours = [
            Rule(kind="neighbours", centre=c, votes=v) for c, v in product(self.centres, self.votes)
        ]
        return [PLAIN, *(rule for rule in centroids if rule != PLAIN), *neighbours]


def probe_wsd(inputs: ProbeInputs, settings: WsdSettings | None = None) -> ProbeResult:
    """F1 on each test set and on all together ("test"), by each reading of the layers.

    The data are semcor.data.xml, test sets and WordNet's index.sense. A reading's own name stands
    for the rule chosen on held-out documents of SemCor ("dev"); plain_READING is the nearest
    centroid by cosine.
    """
    found = find_sets(inputs.data)
    files = {name: (path, need_file(path.parent, name + KEYS)) for name, path in found.items()}
    wordnet = need_file(inputs.data, WORDNET)
    with working("reading the annotated text"):
        sets = {name: read_senses(*paths) for name, paths in files.items()}
    probe = _WsdProbe(sets, read_wordnet(wordnet), settings or WsdSettings())
    probe.score_baselines()
    texts = {
        name: ([s.words for s in found], [[(i.start, i.end) for i in s.instances] for s in found])
        for name, found in sets.items()
    }
    tables = inputs.tables(texts)
    for reading, vectors in each_reading(tables):
        probe.choose_and_score(reading, vectors)
    probe.choose_and_score("static", inputs.static(texts, tables))
    counts = {
        name: {"sentences": len(found), "instances": len(probe.instances[name])}
        for name, found in sets.items()
    }
    used = [wordnet, *(path for found in files.values() for path in found)]
    return ProbeResult(inputs.describe(counts, used), probe.facts(), probe.scores)


def find_sets(data: Path) -> dict[str, Path]:
    """Name -> data file: SemCor first, then the test sets."""
    found = {path.name.partition(DATA)[0]: path for path in find_files(data, f"*{DATA}")}
    tests = {name: path for name, path in found.items() if name not in NOT_TESTS}
    train = need_file(data, TRAIN + DATA)
    if not tests:
        raise ConfigError(f"{data}: no test set here or below; expected a file NAME{DATA}")
    return {TRAIN: train, **tests}


def read_senses(data: Path, keys: Path) -> list[SenseSentence]:
    """The sentences of a data file; instances that the key file does not list are left out."""
    sentences = _read_sentences(data)
    gold = _read_keys(keys, {i.id for sentence in sentences for i in sentence.instances})
    for sentence in sentences:
        known = [i for i in sentence.instances if i.id in gold]
        sentence.instances = [i._replace(keys=gold[i.id]) for i in known]
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


class _WsdProbe:
    """Scores readings one after the other."""

    def __init__(
        self, sets: Mapping[str, Sequence[SenseSentence]], wordnet: WordNet, settings: WsdSettings
    ) -> None:
        self.settings = settings
        self.instances = {n: [i for s in found for i in s.instances] for n, found in sets.items()}
        self.tests = {name: found for name, found in self.instances.items() if name != TRAIN}
        self.together = [instance for asked in self.tests.values() for instance in asked]
        documents = list(dict.fromkeys(sentence.document for sentence in sets[TRAIN]))
        held_out = set(documents[settings.held_out - 1 :: settings.held_out])
        is_dev = [s.document in held_out for s in sets[TRAIN] for _ in s.instances]
        self.dev_rows = np.flatnonzero(is_dev).tolist()
        if not self.dev_rows:
            raise ConfigError(
                f"{TRAIN}{DATA} contains {len(documents)} documents; every {settings.held_out}th "
                f"is held out to choose the rule, so at least {settings.held_out} are needed"
            )
        numbered = list(enumerate(self.instances[TRAIN]))
        self.dev = [instance for row, instance in numbered if is_dev[row]]
        self.senses = Senses(numbered, wordnet)
        self.senses_without_dev = Senses([p for p in numbered if not is_dev[p[0]]], wordnet)
        self.scores: dict[str, float] = {}
        self.rules: dict[str, Any] = {}

    def choose_and_score(self, reading: str, vectors: Mapping[str, Vectors]) -> None:
        """Choose the rule on the held-out documents, then score it and the plain one."""
        taught, rules = vectors[TRAIN], self.settings.rules()
        dev_vectors = taught[self.dev_rows]  # (M, D)
        tried = disambiguate(self.senses_without_dev, taught, self.dev, dev_vectors, rules)
        dev_f1 = [f1(self.dev, answers) for answers in tried]  # one per rule
        best = int(np.argmax(dev_f1))  # the first of equals; PLAIN is the first of all
        self.rules[reading] = {**asdict(rules[best]), "dev_f1": round(dev_f1[best], 4)}
        for name, number in ((reading, best), (f"plain_{reading}", rules.index(PLAIN))):
            answers = {"dev": tried[number]}
            for test, instances in self.tests.items():
                rule, asked = [rules[number]], vectors[test]
                (answers[test],) = disambiguate(self.senses, taught, instances, asked, rule)
            self._score(name, answers)

    def score_baselines(self) -> None:
        """Score what needs no vectors: WordNet's first sense, and SemCor's most frequent one."""
        baselines = {"first_sense": Senses.first, "most_frequent": Senses.most_frequent}
        for name, answer in baselines.items():
            tests = {t: [answer(self.senses, i.entry) for i in self.tests[t]] for t in self.tests}
            dev = [answer(self.senses_without_dev, i.entry) for i in self.dev]
            self._score(name, {"dev": dev, **tests})

    def facts(self) -> dict[str, Any]:
        """The rules tried and chosen, and how many test instances training does not cover."""
        return {
            **asdict(self.settings),
            "rules": self.rules,
            "dev_instances": len(self.dev),
            "test_instances": len(self.together),
            "test_instances_unseen": sum(i.entry not in self.senses.rows for i in self.together),
        }

    def _score(self, reading: str, answers: Mapping[str, Sequence[Answer]]) -> None:
        """F1 on the held-out documents, on each test set, and on all test sets together."""
        given = {**answers, "test": [a for test in self.tests for a in answers[test]]}
        for part, instances in {"dev": self.dev, **self.tests, "test": self.together}.items():
            self.scores[f"{part}_f1_{reading}"] = round(f1(instances, given[part]), 4)


class Senses:
    """The senses of each entry in training, the most frequent first, and their examples' rows.

    Args:
        instances: row of the instance's vector, and the instance.
        wordnet: breaks ties between equally frequent senses; its first sense is the answer for
            an entry unseen in training.
    """

    def __init__(self, instances: Sequence[tuple[int, Instance]], wordnet: WordNet) -> None:
        self.wordnet = wordnet
        found: dict[Entry, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for row, instance in instances:
            for key in instance.keys:
                found[instance.entry][key].append(row)
        self.rows: dict[Entry, dict[str, list[int]]] = {
            entry: dict(sorted(senses.items(), key=lambda item: self._rank(entry, *item)))
            for entry, senses in found.items()
        }

    def first(self, entry: Entry) -> Answer:
        """WordNet's first sense."""
        return next(iter(self.wordnet.get(entry, ())), None)

    def most_frequent(self, entry: Entry) -> Answer:
        """The most frequent sense in training, else WordNet's first."""
        return next(iter(self.rows.get(entry, ())), self.first(entry))

    def _rank(self, entry: Entry, key: str, rows: list[int]) -> tuple[int, int, str]:
        known = list(self.wordnet.get(entry, ()))
        return -len(rows), known.index(key) if key in known else len(known), key


def disambiguate(
    senses: Senses,
    taught: Vectors,
    instances: Sequence[Instance],
    vectors: Vectors,
    rules: Sequence[Rule],
) -> list[list[Answer]]:
    """For each rule, the sense of each instance; WordNet's first if training has no example.

    Args:
        senses: of the training data.
        taught: (N, D) training vectors, indexed by the rows of `senses`.
        instances: to disambiguate.
        vectors: (M, D) of these instances.
        rules: evaluated together, so that they share the cosines.
    """
    answers: list[list[Answer]] = [[senses.first(i.entry) for i in instances] for _ in rules]
    rows_of: dict[Entry, list[int]] = defaultdict(list)
    for row, instance in enumerate(instances):
        rows_of[instance.entry].append(row)
    mean = taught.mean(0)  # (D,)
    words = progress(rows_of.items(), len(rows_of), "words disambiguated", show=True)
    for entry, rows in words:
        if entry not in senses.rows:
            continue
        keys, examples = list(senses.rows[entry]), list(senses.rows[entry].values())
        chosen = _choose_senses(examples, taught, mean, vectors[rows], rules)
        for found, numbers in zip(answers, chosen, strict=True):
            for row, number in zip(rows, numbers, strict=True):
                found[row] = keys[number]
    return answers


def f1(instances: Sequence[Instance], answers: Sequence[Answer]) -> float:
    """F1 in percent; any of an instance's keys is correct, and None counts as no answer."""
    answered = sum(answer is not None for answer in answers)
    right = sum(a in i.keys for i, a in zip(instances, answers, strict=True))
    return 200 * right / (answered + len(instances)) if instances else 0.0


def cosines_of(vectors: Vectors, others: Vectors) -> Vectors:
    """Cosine of each row with each of the others, (N, M); 0 for a zero vector."""
    lengths = np.linalg.norm(vectors, axis=-1)[:, None] * np.linalg.norm(others, axis=-1)  # (N, M)
    found: Vectors = vectors @ others.T / np.maximum(lengths, 1e-12)
    return found.round(5)  # smaller differences are noise: then the more frequent sense wins


def _choose_senses(
    rows: list[list[int]], taught: Vectors, mean: Vectors, vectors: Vectors, rules: Sequence[Rule]
) -> list[NDArray[np.int64]]:
    """For each rule, the number of each vector's sense, (N,), given each sense's rows.

    N vectors, S senses, E examples (an example of several senses counts for each), D width.
    """
    if len(rows) == 1:
        return [np.zeros(len(vectors), np.int64)] * len(rules)
    sense_of = np.repeat(np.arange(len(rows)), [len(found) for found in rows])  # (E,)
    examples = taught[[row for found in rows for row in found]]  # (E, D)
    centroids = np.stack([taught[found].mean(0) for found in rows])  # (S, D)
    entry_mean = taught[sorted({row for found in rows for row in found})].mean(0)  # (D,)
    centers = {"none": np.zeros_like(mean), "all": mean, "entry": entry_mean}
    log_counts = np.log1p(np.bincount(sense_of))  # (S,)

    @cache
    def similarities(centre: Centre) -> Vectors:  # (N, S)
        return cosines_of(vectors - centers[centre], centroids - centers[centre])

    @cache
    def nearest(centre: Centre) -> NDArray[np.int64]:  # (N, E): senses, the nearest example first
        cosines = cosines_of(vectors - centers[centre], examples - centers[centre])  # (N, E)
        found: NDArray[np.int64] = sense_of[np.argsort(-cosines, axis=-1, kind="stable")]
        return found

    def choose(rule: Rule) -> NDArray[np.int64]:
        if rule.kind == "centroid":
            scores = similarities(rule.centre) + rule.prior * log_counts  # (N, S)
            return np.asarray(scores.argmax(-1), np.int64)
        votes = nearest(rule.centre)[:, : rule.votes]  # (N, votes)
        return np.array([np.bincount(each).argmax() for each in votes], np.int64)

    return [choose(rule) for rule in rules]


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
