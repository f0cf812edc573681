"""Word senses by the examples that SemCor shows of each (the paper's Table 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from relmo.elmo import Elmo
from relmo.errors import ConfigError
from relmo.lab.probes.find import find_files, need_file
from relmo.lab.probes.layers import Spans, read_layers, read_one, read_static, readings
from relmo.lab.probes.outcome import Outcome, data_facts
from relmo.lab.probes.senses import PLAIN, Answer, Centre, Rule, Senses, WordNet, disambiguate, f1
from relmo.lab.probes.wsd_data import (
    Instance,
    SenseSentence,
    instances_of,
    read_senses,
    read_wordnet,
    spans_of,
)
from relmo.types import Vectors

TRAIN, STATIC = "semcor", "static"
NO_TESTS = (TRAIN, "semcor+omsti", "omsti", "ALL")
"""Names of data files that are no test sets; ALL is what is made of them here as well."""
DATA, KEYS, WORDNET = ".data.xml", ".gold.key.txt", "index.sense"


@dataclass(frozen=True, kw_only=True)
class WsdSettings:
    """What the rule is chosen from, on documents of SemCor that are held out for it."""

    held_out: int = 10
    """Every so many documents one is held out to choose the rule, then taught like the others."""
    centres: tuple[Centre, ...] = ("none", "all", "entry")
    priors: tuple[float, ...] = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.5)
    votes: tuple[int, ...] = (1, 3, 5, 10, 20, 30)

    def __post_init__(self) -> None:
        if self.held_out < 2 or not self.centres:
            raise ConfigError("a probe of senses needs held_out of 2 or more, and centres")

    def rules(self) -> list[Rule]:
        """All that are tried, the paper's first."""
        centroids = [Rule(centre=c, prior=p) for c, p in product(self.centres, self.priors)]
        neighbours = [
            Rule(kind="neighbours", centre=c, votes=v) for c, v in product(self.centres, self.votes)
        ]
        return [PLAIN, *(rule for rule in centroids if rule != PLAIN), *neighbours]


def probe_wsd(
    elmo: Elmo,
    data: Path,
    *,
    vectors: Path | None = None,
    cache: Path | None = None,
    seed: int = 0,
    settings: WsdSettings | None = None,
) -> Outcome:
    """F1 on each test set and on all together ("test"), by each reading of the layers.

    A reading's own name is the rule chosen on held-out documents of SemCor ("dev"); plain_… is the
    nearest centroid by cosine alone.

    Args:
        elmo: the model.
        data: folder at or below which lie semcor.data.xml, test sets and WordNet's index.sense.
        vectors: static vectors, probed as "static"; without them that is layer 0, the model's own
            vectors that know no context.
        cache: folder where the layers are kept.
        seed: not used: nothing here is random.
        settings: what to choose from.
    """
    files = {name: (path, _keys_of(path)) for name, path in find_sets(data).items()}
    wordnet = need_file(data, WORDNET)
    sets = {name: read_senses(*found) for name, found in files.items()}
    probe = _Probe(sets, read_wordnet(wordnet), settings or WsdSettings())
    probe.note_baselines()
    words = {name: _words(found) for name, found in sets.items()}
    tables = {name: read_layers(elmo, *found, cache) for name, found in words.items()}
    for reading in readings(elmo.config.num_layers):
        probe.run(reading, {name: read_one(table, reading) for name, table in tables.items()})
    if vectors is None:
        probe.copy("layer_0", STATIC)
    else:
        probe.run(STATIC, read_static(vectors, words))
    counts = {
        name: {"sentences": len(found), "instances": len(probe.instances[name])}
        for name, found in sets.items()
    }
    used = [wordnet, *(path for found in files.values() for path in found)]
    used += [] if vectors is None else [vectors]
    return Outcome(data_facts(data, counts, used), probe.facts(), probe.results)


def find_sets(data: Path) -> dict[str, Path]:
    """Name -> data file: SemCor first, then the test sets."""
    found = {path.name.partition(DATA)[0]: path for path in find_files(data, f"*{DATA}")}
    tests = {name: path for name, path in found.items() if name not in NO_TESTS}
    train = need_file(data, TRAIN + DATA)
    if not tests:
        raise ConfigError(f"{data}: no test set there or below; NAME{DATA} is needed")
    return {TRAIN: train, **tests}


class _Probe:
    """Readings probed one after the other, and what came of each."""

    def __init__(
        self, sets: Mapping[str, Sequence[SenseSentence]], wordnet: WordNet, settings: WsdSettings
    ) -> None:
        self.settings = settings
        self.instances = {name: instances_of(found) for name, found in sets.items()}
        self.tests = [name for name in sets if name != TRAIN]
        self.dev_rows = _held_out(sets[TRAIN], settings.held_out)
        if not self.dev_rows:
            documents = len({sentence.document for sentence in sets[TRAIN]})
            raise ConfigError(
                f"{TRAIN}{DATA} holds {documents} documents; every {settings.held_out}th is held "
                f"out to choose the rule, so {settings.held_out} or more are needed"
            )
        self.dev = [self.instances[TRAIN][row] for row in self.dev_rows]
        numbered, out = list(enumerate(self.instances[TRAIN])), set(self.dev_rows)
        self.senses = Senses(numbered, wordnet)
        self.kept = Senses([pair for pair in numbered if pair[0] not in out], wordnet)
        self.results: dict[str, float] = {}
        self.rules: dict[str, Any] = {}

    def run(self, reading: str, vectors: Mapping[str, Vectors]) -> None:
        """Choose the rule on the held-out documents, then score it and the plain one."""
        taught, rules = vectors[TRAIN], self.settings.rules()
        found = disambiguate(self.kept, taught, self.dev, taught[self.dev_rows], rules)
        scores = [f1(self.dev, answers) for answers in found]
        best = int(np.argmax(scores))
        self.rules[reading] = {**asdict(rules[best]), "dev_f1": round(scores[best], 4)}
        self._note("dev", reading, self.dev, found[best])
        self._note("dev", f"plain_{reading}", self.dev, found[0])
        asked = {test: self.instances[test] for test in self.tests}
        chosen = [rules[best], PLAIN]
        answers = {
            t: disambiguate(self.senses, taught, asked[t], vectors[t], chosen) for t in asked
        }
        for number, name in enumerate((reading, f"plain_{reading}")):
            self._note_tests(name, {test: found[number] for test, found in answers.items()})

    def copy(self, reading: str, name: str) -> None:
        """Note the scores of a reading under another name as well."""
        for old, score in list(self.results.items()):
            if old.endswith(f"_{reading}"):
                self.results[old.removesuffix(reading) + name] = score
        self.rules[name] = self.rules[reading]

    def note_baselines(self) -> None:
        """Score what needs no vectors: WordNet's first sense, and SemCor's most frequent one."""
        for name in ("first_sense", "most_frequent"):
            kept, every = (
                senses.first if name == "first_sense" else senses.most_frequent
                for senses in (self.kept, self.senses)
            )
            self._note("dev", name, self.dev, [kept(i.entry) for i in self.dev])
            asked = {test: self.instances[test] for test in self.tests}
            self._note_tests(name, {t: [every(i.entry) for i in asked[t]] for t in asked})

    def facts(self) -> dict[str, Any]:
        """What was tried and chosen, and how much of the tests training does not show."""
        tests = [instance for test in self.tests for instance in self.instances[test]]
        return {
            **asdict(self.settings),
            "rules": self.rules,
            "dev_instances": len(self.dev),
            "test_instances": len(tests),
            "test_instances_unseen": sum(i.entry not in self.senses.rows for i in tests),
        }

    def _note_tests(self, reading: str, answers: Mapping[str, Sequence[Answer]]) -> None:
        for test, found in answers.items():
            self._note(test, reading, self.instances[test], found)
        together = [i for test in self.tests for i in self.instances[test]]
        self._note("test", reading, together, [a for test in self.tests for a in answers[test]])

    def _note(
        self, part: str, reading: str, asked: Sequence[Instance], answers: Sequence[Answer]
    ) -> None:
        self.results[f"{part}_f1_{reading}"] = round(f1(asked, answers), 4)


def _held_out(sentences: Sequence[SenseSentence], every: int) -> list[int]:
    """Rows of the instances that stand in documents held out."""
    documents = dict.fromkeys(sentence.document for sentence in sentences)
    chosen = set(list(documents)[every - 1 :: every])
    is_out = [s.document in chosen for s in sentences for i in s.instances if i.keys]
    return np.flatnonzero(is_out).tolist()


def _words(sentences: Sequence[SenseSentence]) -> Spans:
    return [sentence.words for sentence in sentences], spans_of(sentences)


def _keys_of(path: Path) -> Path:
    return need_file(path.parent, path.name.partition(DATA)[0] + KEYS)
