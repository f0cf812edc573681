"""Parts of speech by a linear classifier on each single layer (the paper's Table 6)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from relmo.elmo import Elmo
from relmo.lab.probes.layers import Span, Words, read_layers, read_one, read_static, readings
from relmo.lab.probes.linear import Features, Labels, LinearProbe, LinearSettings, fit_linear
from relmo.lab.probes.outcome import Outcome, data_facts
from relmo.tasks.data_files import PARTS, Part, need_part
from relmo.tasks.ner.data import TaggedSentence, read_conllu

MIX, STATIC, MOST_FREQUENT = "mix", "static", "most_frequent"
SUFFIXES = (".conllu",)
SCORED: tuple[Part, ...] = ("dev", "test")


def probe_pos(
    elmo: Elmo,
    data: Path,
    *,
    vectors: Path | None = None,
    cache: Path | None = None,
    seed: int = 0,
    settings: LinearSettings | None = None,
) -> Outcome:
    """Accuracy of UPOS tags on the dev and the test part, by each reading of the layers.

    Args:
        elmo: the model.
        data: folder with the train, dev and test files, CoNLL-U.
        vectors: static vectors that are probed as well.
        cache: folder where the layers are kept.
        seed: of the classifiers.
        settings: how they are trained, all but the seed.
    """
    files = {part: need_part(data, part, SUFFIXES) for part in PARTS}
    sentences = {part: read_conllu(path) for part, path in files.items()}
    labels = sorted({tag for sentence in sentences["train"] for tag in sentence.tags})
    probe = _Probe(sentences, labels, replace(settings or LinearSettings(), seed=seed))
    for part in SCORED:
        found = most_frequent_tags(sentences["train"], sentences[part])
        probe.note(part, MOST_FREQUENT, _numbers(found, labels))
    words = {part: _words(found) for part, found in sentences.items()}
    tables = {part: read_layers(elmo, *found, cache) for part, found in words.items()}
    for reading in readings(elmo.config.num_layers):
        probe.run(reading, {p: read_one(t, reading)[:, None] for p, t in tables.items()})
    probe.run(MIX, tables)
    if vectors is not None:
        static = read_static(vectors, words)
        probe.run(STATIC, {part: found[:, None] for part, found in static.items()})
    counts: dict[str, Any] = {
        p: {"sentences": len(sentences[p]), "words": len(probe.gold[p])} for p in PARTS
    }
    used = [*files.values(), *([] if vectors is None else [vectors])]
    facts = {**asdict(probe.settings), "labels": len(labels), **probe.chosen}
    return Outcome(data_facts(data, counts, used), facts, probe.results)


def most_frequent_tags(
    train: Sequence[TaggedSentence], sentences: Sequence[TaggedSentence]
) -> list[str]:
    """The tag that each word has most often in training; the most frequent of all if it is new."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            counts[word][tag] += 1
    total = sum(counts.values(), Counter[str]())
    best = {word: _first(found) for word, found in counts.items()}
    return [best.get(word, _first(total)) for s in sentences for word in s.words]


class _Probe:
    """Readings probed one after the other, and what came of each."""

    def __init__(
        self,
        sentences: Mapping[Part, Sequence[TaggedSentence]],
        labels: Sequence[str],
        settings: LinearSettings,
    ) -> None:
        self.gold = {
            part: _numbers([tag for sentence in found for tag in sentence.tags], labels)
            for part, found in sentences.items()
        }
        self.num_labels, self.settings = len(labels), settings
        self.results: dict[str, float] = {}
        self.chosen: dict[str, Any] = {"strength": {}, "mix": []}

    def run(self, reading: str, features: Mapping[Part, Features]) -> None:
        train, dev = ((features[part], self.gold[part]) for part in ("train", "dev"))
        probe = fit_linear(train, dev, self.num_labels, self.settings)
        for part in SCORED:
            self.note(part, reading, probe.predict(features[part]))
        self._keep(reading, probe)

    def note(self, part: Part, reading: str, found: Labels) -> None:
        right = 100 * float((found == self.gold[part]).mean())
        self.results[f"{part}_accuracy_{reading}"] = round(right, 4)

    def _keep(self, reading: str, probe: LinearProbe) -> None:
        self.chosen["strength"][reading] = probe.strength
        if reading == MIX:
            self.chosen["mix"] = [round(share, 4) for share in probe.shares()]


def _words(sentences: Sequence[TaggedSentence]) -> tuple[list[Words], list[list[Span]]]:
    """The sentences, and every word of theirs as a span."""
    spans = [[(place, place + 1) for place in range(len(s.words))] for s in sentences]
    return [s.words for s in sentences], spans


def _numbers(tags: Sequence[str], labels: Sequence[str]) -> Labels:
    """Numbers of tags; -1 for one that training does not have, which no probe can get right."""
    number_of = {label: number for number, label in enumerate(labels)}
    return np.array([number_of.get(tag, -1) for tag in tags], dtype=np.int64)


def _first(counts: Counter[str]) -> str:
    """The most frequent; of equals the first in the alphabet."""
    return min(counts, key=lambda tag: (-counts[tag], tag))
