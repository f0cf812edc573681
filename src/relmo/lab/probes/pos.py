"""Parts of speech by a linear classifier on each single layer (Table 6 of the paper)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from relmo.lab.probes.inputs import STATIC, ProbeInputs, ProbeResult, each_reading, every_word
from relmo.lab.probes.linear import Features, Labels, LinearSettings, fit_linear
from relmo.tasks.data_files import PARTS, Part, need_part
from relmo.tasks.ner.data import TaggedSentence, read_conllu

MIX, MOST_FREQUENT = "mix", "most_frequent"
SUFFIXES = (".conllu",)
SCORED: tuple[Part, ...] = ("dev", "test")


def probe_pos(inputs: ProbeInputs, settings: LinearSettings | None = None) -> ProbeResult:
    """Accuracy of UPOS tags on the dev and the test part, by each reading of the layers.

    The data folder itself has the train, dev and test files, in CoNLL-U.
    """
    files = {part: need_part(inputs.data, part, SUFFIXES) for part in PARTS}
    sentences = {part: read_conllu(path) for part, path in files.items()}
    labels = sorted({tag for sentence in sentences["train"] for tag in sentence.tags})
    gold = {
        part: _label_ids([tag for sentence in found for tag in sentence.tags], labels)
        for part, found in sentences.items()
    }
    used = replace(settings or LinearSettings(), seed=inputs.seed)
    scores: dict[str, float] = {}
    chosen: dict[str, Any] = {"strength": {}, "mix": []}

    def score(part: Part, reading: str, predicted: Labels) -> None:
        accuracy = 100 * float((predicted == gold[part]).mean())
        scores[f"{part}_accuracy_{reading}"] = round(accuracy, 4)

    def fit_and_score(reading: str, features: Mapping[Part, Features]) -> None:
        train, dev = ((features[part], gold[part]) for part in ("train", "dev"))
        probe = fit_linear(train, dev, len(labels), used)
        for part in SCORED:
            score(part, reading, probe.predict(features[part]))
        chosen["strength"][reading] = probe.strength
        if reading == MIX:
            chosen["mix"] = [round(share, 4) for share in probe.shares()]

    for part in SCORED:
        found = most_frequent_tags(sentences["train"], sentences[part])
        score(part, MOST_FREQUENT, _label_ids(found, labels))
    texts = {part: every_word([s.words for s in found]) for part, found in sentences.items()}
    tables = inputs.tables(texts)
    for reading, features in each_reading(tables):
        fit_and_score(reading, {part: values[:, None] for part, values in features.items()})
    fit_and_score(MIX, tables)
    if inputs.vectors is not None:
        static = inputs.static(texts, tables)
        fit_and_score(STATIC, {part: values[:, None] for part, values in static.items()})
    counts = {p: {"sentences": len(sentences[p]), "words": len(gold[p])} for p in PARTS}
    facts = {**asdict(used), "labels": len(labels), **chosen}
    return ProbeResult(inputs.describe(counts, files.values()), facts, scores)


def most_frequent_tags(
    train: Sequence[TaggedSentence], sentences: Sequence[TaggedSentence]
) -> list[str]:
    """The most frequent tag of each word in training; of all words, for a word unseen there."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            counts[word][tag] += 1
    overall = _most_frequent(sum(counts.values(), Counter[str]()))
    best = {word: _most_frequent(found) for word, found in counts.items()}
    return [best.get(word, overall) for s in sentences for word in s.words]


def _label_ids(tags: Sequence[str], labels: Sequence[str]) -> Labels:
    """Ids of tags; -1 for a tag unseen in training, which no probe can predict."""
    ids = {label: number for number, label in enumerate(labels)}
    return np.array([ids.get(tag, -1) for tag in tags], dtype=np.int64)


def _most_frequent(counts: Counter[str]) -> str:
    """The most frequent tag; ties are broken alphabetically."""
    return min(counts, key=lambda tag: (-counts[tag], tag))
